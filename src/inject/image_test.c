// SPDX-License-Identifier: BSD-2-Clause
// Serves: W1.
/*
 * The image is put into this process and its decoder run there, beside the same decoder as the
 * dynamic linker has loaded it: both must say the same. Then files that a linker would not make.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/err.h"
#include "base/mem.h"
#include "inject/image.h"
#include "wire/engine.h"

extern const uint8_t engine_embedded[], engine_embedded_end[];

struct fixture {
	struct image_file engine;
	struct image_file library;
	uint8_t *bytes; /* of the library, to be changed */
};

static int fixture_setup(void **state)
{
	struct fixture *fixture = mem_zalloc(sizeof(*fixture));
	struct stat status;
	Dl_info info;
	int fd;

	assert_int_not_equal(dladdr((void *)(uintptr_t)ZydisDecoderInit, &info), 0);
	fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &status), 0);
	fixture->bytes = mem_alloc((size_t)status.st_size);
	assert_int_equal(read(fd, fixture->bytes, (size_t)status.st_size), status.st_size);
	close(fd);
	fixture->engine = (struct image_file){ "engine", engine_embedded,
					       (size_t)(engine_embedded_end - engine_embedded) };
	fixture->library = (struct image_file){ "library", fixture->bytes, (size_t)status.st_size };
	*state = fixture;
	return 0;
}

static int fixture_teardown(void **state)
{
	struct fixture *fixture = *state;

	free(fixture->bytes);
	free(fixture);
	return 0;
}

static void test_pages(void **state)
{
	AUTO(image_destroy_auto) struct image *image = NULL;

	assert_int_equal(image_create_own(&image), 0);
	assert_int_equal(image->size % IMAGE_PAGE, 0);
	assert_true(image->protection[image->entry / IMAGE_PAGE] & PROT_EXEC);
	for (size_t i = 0; i < image->size / IMAGE_PAGE; i++)
		assert_int_not_equal(image->protection[i] & (PROT_WRITE | PROT_EXEC),
				     PROT_WRITE | PROT_EXEC);
	assert_true(image->fix_count > 2000);
	for (size_t i = 0; i < image->fix_count; i++) {
		assert_true(image->fixes[i].offset <= image->size - 8);
		assert_false(image->protection[image->fixes[i].offset / IMAGE_PAGE] & PROT_EXEC);
		assert_true(image->fixes[i].value < image->size);
	}
}

/* Only the words in fixes depend on the address. */
static void test_place(void **state)
{
	const uint64_t here = 0x7e8012345000, there = 0x7ea000000000;
	AUTO(image_destroy_auto) struct image *image = NULL;
	AUTO(free_ptr) uint8_t *before = NULL;

	assert_int_equal(image_create_own(&image), 0);
	image_place(image, here);
	before = mem_dup(image->bytes, image->size);
	image_place(image, there);
	assert_int_equal(image->address, there);
	assert_memory_not_equal(before, image->bytes, image->size);
	for (size_t i = 0; i < image->fix_count; i++) {
		uint64_t value = there + image->fixes[i].value;

		assert_memory_equal(image->bytes + image->fixes[i].offset, &value, sizeof(value));
		value = here + image->fixes[i].value;
		memcpy(image->bytes + image->fixes[i].offset, &value, sizeof(value));
	}
	assert_memory_equal(before, image->bytes, image->size);
}

/* Like the way into a process, but the process is this one. */
static uint8_t *image_map(struct image *image)
{
	uint8_t *memory =
		mmap(NULL, image->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(memory, MAP_FAILED);
	image_place(image, (uint64_t)memory);
	memcpy(memory, image->bytes, image->size);
	for (size_t i = 0; i < image->size / IMAGE_PAGE; i++)
		assert_int_equal(
			mprotect(memory + i * IMAGE_PAGE, IMAGE_PAGE, image->protection[i]), 0);
	return memory;
}

/* The second of the two objects begins with the second ELF header. */
static uint64_t library_offset(const struct image *image)
{
	for (uint64_t at = IMAGE_PAGE; at < image->size; at += IMAGE_PAGE)
		if (!memcmp(image->bytes + at, ELFMAG, SELFMAG))
			return at;
	fail_msg("no library in the image");
	return 0;
}

/* Where the image has a function that this process has as well. */
static void *function_in(uint8_t *library, void *ours)
{
	Dl_info info;

	assert_int_not_equal(dladdr(ours, &info), 0);
	return library + ((uint8_t *)ours - (uint8_t *)info.dli_fbase);
}

/* Each decoder points to tables of its own. */
static void instructions_equal(ZydisDecodedInstruction *ours, ZydisDecodedInstruction *theirs)
{
	if (ours->cpu_flags) {
		assert_ptr_not_equal(ours->cpu_flags, theirs->cpu_flags);
		assert_memory_equal(ours->cpu_flags, theirs->cpu_flags, sizeof(*ours->cpu_flags));
		assert_memory_equal(ours->fpu_flags, theirs->fpu_flags, sizeof(*ours->fpu_flags));
	}
	ours->cpu_flags = theirs->cpu_flags;
	ours->fpu_flags = theirs->fpu_flags;
	assert_memory_equal(ours, theirs, sizeof(*ours));
}

static void test_decoder(void **state)
{
	static const char *const codes[] = {
		"\x48\x89\xd8",
		"\xf3\x48\xab",
		"\x62\xf1\x7c\x48\x58\x44\x91\x01",
		"\x0f\x05",
		"\xc5\xf8\x77",
		"\xe8\x10",
		"\x66\x0f\x38\xf6\xc8",
	};
	AUTO(image_destroy_auto) struct image *image = NULL;
	uint8_t *library, *memory;
	ZydisDecoder decoder = {}, other = {};
	__typeof__(ZydisDecoderInit) *init;
	__typeof__(ZydisDecoderDecodeFull) *decode;

	assert_int_equal(image_create_own(&image), 0);
	memory = image_map(image);
	library = memory + library_offset(image);
	init = (__typeof__(init))function_in(library, (void *)(uintptr_t)ZydisDecoderInit);
	decode =
		(__typeof__(decode))function_in(library, (void *)(uintptr_t)ZydisDecoderDecodeFull);
	assert_int_equal(init(&other, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64),
			 ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64,
					  ZYDIS_STACK_WIDTH_64));
	assert_memory_equal(&decoder, &other, sizeof(decoder));
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		ZydisDecodedInstruction ours = {}, theirs = {};
		ZydisDecodedOperand our[ZYDIS_MAX_OPERAND_COUNT] = {};
		ZydisDecodedOperand their[ZYDIS_MAX_OPERAND_COUNT] = {};
		ZyanStatus status =
			ZydisDecoderDecodeFull(&decoder, codes[i], strlen(codes[i]), &ours, our);

		assert_int_equal(decode(&other, codes[i], strlen(codes[i]), &theirs, their),
				 status);
		instructions_equal(&ours, &theirs);
		assert_memory_equal(our, their, sizeof(our));
	}
	munmap(memory, image->size);
}

/* Where the program of test_entry begins: writes all that it finds to a pipe. */
void landing(void);
uint64_t landed[20];
int landing_pipe;

__asm__(".text\n"
	"landing:\n"
	"mov %rax, landed(%rip)\n"
	"mov %rcx, landed+8(%rip)\n"
	"mov %rdx, landed+16(%rip)\n"
	"mov %rbx, landed+24(%rip)\n"
	"mov %rsp, landed+32(%rip)\n"
	"mov %rbp, landed+40(%rip)\n"
	"mov %rsi, landed+48(%rip)\n"
	"mov %rdi, landed+56(%rip)\n"
	"mov %r8, landed+64(%rip)\n"
	"mov %r9, landed+72(%rip)\n"
	"mov %r10, landed+80(%rip)\n"
	"mov %r11, landed+88(%rip)\n"
	"mov %r12, landed+96(%rip)\n"
	"mov %r13, landed+104(%rip)\n"
	"mov %r14, landed+112(%rip)\n"
	"mov %r15, landed+120(%rip)\n"
	"lea landing(%rip), %rax\n"
	"mov %rax, landed+128(%rip)\n"
	"lea landed+160(%rip), %rsp\n"
	"pushfq\n" /* into the last word, which is gs's later */
	"pop landed+136(%rip)\n"
	"mov $0x1003, %edi\n" /* ARCH_GET_FS */
	"lea landed+144(%rip), %rsi\n"
	"mov $158, %eax\n"
	"syscall\n"
	"mov $0x1004, %edi\n" /* ARCH_GET_GS */
	"lea landed+152(%rip), %rsi\n"
	"mov $158, %eax\n"
	"syscall\n"
	"mov landing_pipe(%rip), %edi\n"
	"lea landed(%rip), %rsi\n"
	"mov $160, %edx\n"
	"mov $1, %eax\n" /* write */
	"syscall\n"
	"xor %edi, %edi\n"
	"mov $231, %eax\n" /* exit_group */
	"syscall\n");

/* In a child, which is the engine's from here on. */
static void entry_run(struct image *image, struct engine_boot *boot)
{
	uint8_t *memory = image_map(image);

	__asm__ volatile("mov %0, %%rsp; jmp *%1"
			 :
			 : "r"(malloc(65536) + 65536 - 64), "r"(memory + image->entry), "D"(boot)
			 : "memory");
	__builtin_unreachable();
}

/* The tool native: every register becomes what engine_boot says. */
static void test_entry(void **state)
{
	AUTO(image_destroy_auto) struct image *image = NULL;
	struct engine_boot boot = { .tools = ENGINE_TOOL_BIT(ENGINE_TOOL_NATIVE) };
	struct engine_registers found;
	int ends[2];
	pid_t pid;

	for (size_t i = 0; i < 16; i++)
		boot.registers.general[i] = 0x1234567890 * (i + 1);
	boot.registers.rip = (uint64_t)landing;
	boot.registers.rflags =
		0x2d7; /* all that arithmetic sets, and interrupts, which are always on */
	boot.registers.fs_base = 0x123456789000;
	boot.registers.gs_base = 0x234567890000;
	assert_int_equal(image_create_own(&image), 0);
	assert_int_equal(pipe(ends), 0);
	landing_pipe = ends[1];
	pid = fork();
	if (pid == 0)
		entry_run(image, &boot);
	close(ends[1]);
	assert_int_equal(read(ends[0], &found, sizeof(found)), sizeof(found));
	close(ends[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_memory_equal(&found, &boot.registers, sizeof(found));
}

static void refused(const struct fixture *fixture, const char *why)
{
	struct image *image = NULL;

	assert_true(image_create(&fixture->engine, &fixture->library, &image) < 0);
	assert_null(image);
	if (!strstr(err_text(), why))
		fail_msg("'%s' does not say '%s'", err_text(), why);
}

static Elf64_Phdr *segment_of(const struct fixture *fixture, uint32_t type)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)fixture->bytes;
	Elf64_Phdr *segment = (Elf64_Phdr *)(fixture->bytes + header->e_phoff);

	for (size_t i = 0; i < header->e_phnum; i++)
		if (segment[i].p_type == type)
			return &segment[i];
	fail_msg("no segment of type %u", type);
	return NULL;
}

static Elf64_Shdr *section_of(const struct fixture *fixture, uint32_t type)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)fixture->bytes;
	Elf64_Shdr *section = (Elf64_Shdr *)(fixture->bytes + header->e_shoff);

	for (size_t i = 0; i < header->e_shnum; i++)
		if (section[i].sh_type == type)
			return &section[i];
	fail_msg("no section of type %u", type);
	return NULL;
}

static void test_missing_symbol(void **state)
{
	const struct fixture *fixture = *state;
	uint8_t *name = memmem(fixture->bytes, fixture->library.size, "\0strlen", 8);

	assert_non_null(name);
	name[6] = 'x';
	refused(fixture, "it needs 'strlex'");
}

static void test_relocation_type(void **state)
{
	const struct fixture *fixture = *state;
	const Elf64_Shdr *section = section_of(fixture, SHT_RELA);
	Elf64_Rela *relocation = (Elf64_Rela *)(fixture->bytes + section->sh_offset);

	relocation->r_info = ELF64_R_INFO(0, R_X86_64_IRELATIVE);
	refused(fixture, "relocation of type 37");
	relocation->r_info = ELF64_R_INFO(0, R_X86_64_RELATIVE);
	relocation->r_offset = 1ull << 40;
	refused(fixture, "outside");
}

static void test_segments(void **state)
{
	const struct fixture *fixture = *state;
	Elf64_Phdr *segment = segment_of(fixture, PT_LOAD);
	const Elf64_Phdr saved = *segment;

	segment->p_flags = PF_R | PF_W | PF_X;
	refused(fixture, "writable and executable");
	*segment = saved;
	segment->p_filesz = segment->p_memsz = 1 << 25;
	refused(fixture, "shorter");
	*segment = saved;
	segment->p_memsz = ~0ull;
	refused(fixture, "too large");
	*segment = saved;
	segment->p_memsz += 1 << 16;
	refused(fixture, "share a page");
	*segment = saved;
	segment_of(fixture, PT_NOTE)->p_type = PT_TLS;
	refused(fixture, "thread-local");
}

static void test_kind(void **state)
{
	struct fixture *fixture = *state;

	fixture->bytes[EI_CLASS] = ELFCLASS32;
	refused(fixture, "cannot become part");
	fixture->bytes[EI_CLASS] = ELFCLASS64;
	((Elf64_Ehdr *)fixture->bytes)->e_machine = EM_AARCH64;
	refused(fixture, "x86-64");
	fixture->bytes[0] = 'x';
	refused(fixture, "ELF");
	fixture->library.size = 0;
	refused(fixture, "ELF");
}

static uint64_t random_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

/*
 * Bytes of the headers, symbols and relocations are changed; whatever comes of it, nothing else may
 * be touched.
 */
static void mutate(struct image_file engine, struct image_file library, bool is_engine,
		   uint64_t *seed)
{
	struct image_file *changed = is_engine ? &engine : &library;
	AUTO(free_ptr) uint8_t *copy = mem_dup(changed->bytes, changed->size);
	AUTO(image_destroy_auto) struct image *image = NULL;
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)changed->bytes;
	uint64_t count = 1 + random_next(seed) % 8;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t low = random_next(seed) % 2 ? 0 : header->e_shoff;
		uint64_t span = low ? changed->size - low : (is_engine ? changed->size : 0x12000);

		copy[low + random_next(seed) % span] = (uint8_t)random_next(seed);
	}
	changed->bytes = copy;
	if (image_create(&engine, &library, &image))
		return;
	image_place(image, 0x7e8000000000);
}

static void test_mutations(void **state)
{
	const struct fixture *fixture = *state;
	uint64_t seed = 20260101;

	for (int i = 0; i < 2000; i++)
		mutate(fixture->engine, fixture->library, i % 2, &seed);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pages),	   cmocka_unit_test(test_place),
		cmocka_unit_test(test_decoder),	   cmocka_unit_test(test_entry),
		WITH_FIXTURE(test_missing_symbol), WITH_FIXTURE(test_relocation_type),
		WITH_FIXTURE(test_segments),	   WITH_FIXTURE(test_kind),
		WITH_FIXTURE(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
