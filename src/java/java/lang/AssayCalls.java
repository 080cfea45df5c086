// SPDX-License-Identifier: BSD-2-Clause
package java.lang;

import static java.lang.AssayLayout.*;

import jdk.internal.misc.Unsafe;
import jdk.internal.vm.annotation.ForceInline;

/**
 * What rewritten methods call at their entry and exits. It belongs to java.lang because every class
 * loader finds that, and because only java.base may use Unsafe.
 *
 * The usual cases of calls/tree.h, done on the same memory: what is entered is the node that was
 * entered last from here, what is left is the node on top. All else is done by the native methods.
 * Nothing here allocates, locks or throws.
 *
 * A thread finds its memory by its number in a table. An entry may be that of another thread, which
 * has its own number in its memory; that memory stays mapped for ever.
 */
public final class AssayCalls {
    private static final Unsafe U = Unsafe.getUnsafe();
    private static final long NUMBER = U.objectFieldOffset(Thread.class, "tid");
    private static final Class<?> VIRTUAL = find("java.lang.BaseVirtualThread");
    private static final long TABLE = table();
    private static final long PAUSES = pauses();
    private static final boolean TIMED = timed();

    private static final int BATCHES = 60;
    private static final int PAIRS = 500;

    private AssayCalls() {}

    private static native long table();
    private static native long pauses();
    private static native boolean timed();
    private static native long begin(long number, Thread thread, boolean virtual);
    private static native void charge(long self);
    private static native void enterOther(long self, int routine);
    private static native void leaveOther(long self, int routine);
    private static native void caughtOther(long self, int routine);
    private static native void calibrated(long ns);

    private static Class<?> find(String name) {
        try {
            return Class.forName(name, false, null);
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    private static long begin(Thread thread, long number) {
        return begin(number, thread, VIRTUAL != null && VIRTUAL.isInstance(thread));
    }

    /** The calling thread's memory, or 0. */
    @ForceInline
    private static long self() {
        Thread thread = Thread.currentThread();
        long number = U.getLong(thread, NUMBER);
        long self = U.getLong(TABLE + ((number & TABLE_MASK) << 3));

        return U.getLong(self + THREAD_JAVA) == number ? self : begin(thread, number);
    }

    @ForceInline
    private static void time(long self) {
        long now = System.nanoTime();
        int lock = U.getInt(U.getLong(self + THREAD_PAGE) + PAGE_LOCK);
        long node = U.getLong(U.getLong(self + THREAD_TOP) + FRAME_AT);
        long interval = now - U.getLong(self + THREAD_LAST);

        if (lock != U.getInt(self + THREAD_PAGE_LOCK)
                || U.getLong(PAUSES) != U.getLong(self + THREAD_PAUSED)) {
            charge(self);
            return;
        }
        U.putLong(self + THREAD_LAST, now);
        U.putLong(node + NODE_ELAPSED, U.getLong(node + NODE_ELAPSED) + interval);
        U.putLong(node + NODE_BASE, U.getLong(node + NODE_BASE) + interval);
    }

    @ForceInline
    public static void enter(int routine) {
        long self = self();

        if (self == 0) {
            return;
        }
        if (TIMED) {
            time(self);
        }
        long top = U.getLong(self + THREAD_TOP);
        long node = U.getLong(top + FRAME + FRAME_AT);

        if (node == 0 || U.getLong(node + NODE_ROUTINE) != routine
                || U.getInt(node + NODE_PARENT) != U.getInt(top + FRAME_NODE)) {
            enterOther(self, routine);
            return;
        }
        U.putLong(node + NODE_CALLS, U.getLong(node + NODE_CALLS) + 1);
        U.putLong(top + FRAME + FRAME_SP, -1);
        U.putLong(self + THREAD_TOP, top + FRAME);
    }

    @ForceInline
    public static void leave(int routine) {
        long self = self();

        if (self == 0) {
            return;
        }
        if (TIMED) {
            time(self);
        }
        long top = U.getLong(self + THREAD_TOP);

        if (U.getInt(self + THREAD_DEEP) != 0
                || U.getLong(U.getLong(top + FRAME_AT) + NODE_ROUTINE) != routine) {
            leaveOther(self, routine);
            return;
        }
        U.putLong(self + THREAD_TOP, top - FRAME);
    }

    /** The routine goes on after an exception: what it had called has gone. */
    @ForceInline
    public static void caught(int routine) {
        long self = self();

        if (self != 0 && U.getLong(U.getLong(U.getLong(self + THREAD_TOP) + FRAME_AT)
                + NODE_ROUTINE) != routine) {
            caughtOther(self, routine);
        }
    }

    private static void pair() {
        enter(1);
        leave(1);
    }

    /** What an interval holds of the measurement itself: the least of some batches, compiled. */
    private static void calibrate() {
        long least = Long.MAX_VALUE;

        for (int batch = 0; batch < BATCHES && TIMED; batch++) {
            long begin = System.nanoTime();

            for (int i = 0; i < PAIRS; i++) {
                pair();
            }
            least = Math.min(least, (System.nanoTime() - begin) / (2 * PAIRS));
        }
        calibrated(TIMED ? least : 0);
    }
}
