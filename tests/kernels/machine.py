# SPDX-License-Identifier: BSD-2-Clause
"""Emulated machines: Debian's kernel packages, an initramfs made of the build, qemu.

A machine has no disk and needs no module: it boots into tests/kernels/init, which sends what it found through the second
serial port as a tar archive. Everything is emulated (TCG), so that it runs anywhere and on any kind of CPU that qemu
knows; TCG emulates up to AVX2, and not AVX-512.
"""

import glob
import gzip
import io
import os
import re
import shutil
import subprocess
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
CACHE = os.path.join(BUILD, "kernels")
APPLETS = ["sh", "cat", "chmod", "chown", "echo", "grep", "kill", "mkdir", "mount", "poweroff", "rm", "sleep", "stty",
           "su", "sync", "tar", "gzip", "touch", "tr", "wc"]
PROGRAMS = {"units": ["run_test", "block_table_test"], "rates": ["sampler_test"]}


class Unavailable(Exception):
    """What is needed is not on this machine and cannot be had."""


# --- Kernels ---------------------------------------------------------------------------------------------

PACKAGE = re.compile(r"linux-image-((\d+)\.(\d+)[\w.+-]*?)-((?:cloud-|rt-)?amd64)$")


def version_key(text):
    return [int(part) for part in re.findall(r"\d+", text)]


def offered():
    """The newest package of each series and flavour that the package lists offer, as {(series, flavour): name}."""
    run = subprocess.run(["apt-cache", "pkgnames", "linux-image-"], capture_output=True, text=True, check=False)
    newest = {}
    for name in run.stdout.split():
        found = PACKAGE.match(name)
        if not found:
            continue
        key = (int(found[2]), int(found[3])), found[4]
        if key not in newest or version_key(found[1]) > version_key(PACKAGE.match(newest[key])[1]):
            newest[key] = name
    return dict(sorted(newest.items()))


def download(package):
    """The package as a file."""
    os.makedirs(CACHE, exist_ok=True)
    have = glob.glob(os.path.join(CACHE, package.replace("+", "[+]") + "_*.deb"))
    if not have:
        run = subprocess.run(["apt-get", "download", package], cwd=CACHE, capture_output=True, text=True, check=False)
        have = glob.glob(os.path.join(CACHE, package.replace("+", "[+]") + "_*.deb"))
        if run.returncode or not have:
            lines = run.stderr.strip().splitlines()
            raise Unavailable(f"{package} cannot be downloaded: {lines[-1] if lines else 'apt-get failed'}")
    return have[0]


def kernel_image(source):
    """The bootable file of a package's name, a .deb or an image."""
    if not os.path.isfile(source):
        source = download(source)
    if not source.endswith(".deb"):
        return source
    folder = os.path.join(CACHE, os.path.basename(source).split("_")[0])
    found = glob.glob(os.path.join(glob.escape(folder), "**/vmlinuz*"), recursive=True)
    if not found:
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        archive = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", source], stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", folder, "--wildcards", "*/vmlinuz*"], stdin=archive.stdout, check=True)
        archive.wait()
        found = glob.glob(os.path.join(glob.escape(folder), "**/vmlinuz*"), recursive=True)
    return found[0]


# --- The initramfs ---------------------------------------------------------------------------------------

class Tree:
    """Files and folders that become an archive in the kernel's format (cpio, newc)."""

    def __init__(self):
        self.data = io.BytesIO()
        self.names = set()

    def entry(self, name, mode, content=b""):
        encoded = name.encode() + b"\0"
        fields = [len(self.names) + 1, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0]
        self.data.write(b"070701" + b"".join(b"%08X" % field for field in fields) + encoded)
        self.pad()
        self.data.write(content)
        self.pad()
        self.names.add(name)

    def pad(self):
        self.data.write(b"\0" * (-self.data.tell() % 4))

    def folder(self, name):
        if name and name not in self.names:
            self.folder(os.path.dirname(name))
            self.entry(name, 0o40755)

    def file(self, name, path):
        if name in self.names:
            return
        self.folder(os.path.dirname(name))
        with open(path, "rb") as file:
            self.entry(name, 0o100755, file.read())

    def program(self, name, path):
        """With the shared libraries that it is linked to."""
        self.file(name, path)
        run = subprocess.run(["ldd", path], capture_output=True, text=True, check=False)
        for library in re.findall(r"(/\S+) \(0x", run.stdout):
            self.file(library.lstrip("/"), os.path.realpath(library))

    def link(self, name, target):
        self.folder(os.path.dirname(name))
        self.entry(name, 0o120777, target.encode())

    def text(self, name, text):
        self.folder(os.path.dirname(name))
        self.entry(name, 0o100644, text.encode())

    def write(self, path):
        self.entry("TRAILER!!!", 0)
        with gzip.open(path, "wb", compresslevel=1) as file:
            file.write(self.data.getvalue())


def initramfs(assay, folder):
    """Makes it; (path of the archive, path of the program that is profiled in it)."""
    busybox = shutil.which("busybox") or "/bin/busybox"
    if not os.path.exists(busybox):
        raise Unavailable("busybox is not installed")
    work, path = os.path.join(folder, "work"), os.path.join(folder, "initramfs")
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-g", "-fno-optimize-sibling-calls", "-Wall", "-Werror",
                    "-I", os.path.join(HERE, "../../include"), "-o", work, os.path.join(HERE, "work.c")], check=True)
    tree = Tree()
    for name in ("proc", "sys", "dev", "tmp", "root", "out"):
        tree.folder(name)
    tree.program("bin/busybox", busybox)
    for applet in APPLETS:
        tree.link("bin/" + applet, "busybox")
    tree.program("bin/assay", assay)
    tree.program("bin/work", work)
    for place, names in PROGRAMS.items():
        for name in names:
            for found in glob.glob(os.path.join(BUILD, "src/**", name), recursive=True):
                tree.program(f"{place}/{name}", found)
    tree.text("etc/passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/tmp:/bin/sh\n")
    tree.text("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    tree.file("init", os.path.join(HERE, "init"))
    tree.write(path)
    return path, work


# --- Booting ---------------------------------------------------------------------------------------------

# As fast as the host can, on two CPUs; or each instruction takes 2 ns of the machine's time, however long it takes.
CLOCKS = {"host": ["-accel", "tcg,thread=multi", "-smp", "2"],
          "instructions": ["-icount", "shift=1,sleep=off", "-smp", "1"]}


def boot(kernel, cpu, archive, folder, steps, seconds, clock="host"):
    """Runs the steps in a machine; leaves what they wrote in folder/out, and the console in folder/console."""
    if not shutil.which("qemu-system-x86_64"):
        raise Unavailable("qemu-system-x86_64 is not installed")
    console, sent = os.path.join(folder, "console"), os.path.join(folder, "sent")
    command = ["qemu-system-x86_64", "-machine", "q35", "-cpu", cpu, *CLOCKS[clock], "-m", "1024", "-display", "none",
               "-nic", "none", "-no-reboot", "-monitor", "none", "-serial", f"file:{console}",
               "-serial", f"file:{sent}", "-kernel", kernel, "-initrd", archive,
               # A busy host brings the first timer interrupts so late that the kernel would give up. A kernel for real time
               # looks for the sender of an interrupt later, in a thread, and would call the serial line's one nobody's.
               "-append", f"console=ttyS0 quiet panic=-1 no_timer_check noirqdebug steps={','.join(steps)}"]
    try:
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        pass  # what is missing is found missing
    out = os.path.join(folder, "out")
    os.makedirs(out, exist_ok=True)
    try:
        with tarfile.open(sent) as archive_sent:
            archive_sent.extractall(out)
    except (tarfile.TarError, EOFError, FileNotFoundError, OSError):
        pass
    return out
