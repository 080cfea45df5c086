// SPDX-License-Identifier: BSD-2-Clause
/*
 * A screen is a list of lines, made anew when something has changed: those of report_text() for the
 * table, of which the first is the head and each of the next ones a row, and lines of callers below
 * the rows whose function is expanded.
 */
#include "cmd/browse.h"

#include <errno.h>
#include <langinfo.h>
#include <ncurses.h>
#include <string.h>

#include "analyse/annotate.h"
#include "analyse/names.h"
#include "analyse/request.h"
#include "base/array.h"
#include "base/err.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "cmd/view_annotate.h"
#include "cmd/view_code.h"
#include "report/footer.h"
#include "report/report.h"
#include "report/source.h"

enum {
	WAIT_MS = 250, /* for a key; then the profile is checked for changes */
	ROWS_MAX = 2000,
	CALLERS_MAX = 12,
	FILTER_MAX = 100,
	KEY_INTERRUPT = 3,
	KEY_ESCAPE = 27,
	FRAME_LINES = 3, /* title, head, help */
};

enum { PAIR_HOT = 1, PAIR_WARM };

/* The colours of perf: hot from 5 %, warm from 0.5 %. */
#define SHARE_HOT 0.05
#define SHARE_WARM 0.005

struct line {
	char *text;
	char *symbol, *module; /* NULL: the line is about no function */
	char *key; /* what is expanded here: the function, and below it each caller on the way */
	double share; /* 0: it has none */
};

struct lines {
	struct line *items;
	size_t count, capacity;
};

struct browse {
	struct served *served;
	const struct browse_options *options;
	ARRAY(const struct view *) views; /* that the profile has something for */
	size_t view; /* in views */
	uint64_t generation; /* of what is shown */
	char *head;
	char *sums; /* what was seen, kept and lost */
	struct lines lines;
	size_t at, top; /* the line that is chosen, and the first one that is seen */
	char filter[FILTER_MAX];
	struct strtab expanded; /* keys of lines that were ever expanded */
	ARRAY(bool) is_expanded; /* by number in expanded */
	char *annotated; /* symbol whose code is shown; NULL: a table is */
	char *annotated_module;
	char *message; /* what went wrong with the last key; NULL: nothing */
	bool done;
};

/* --- Lines ------------------------------------------------------------------------------------ */

static void lines_clear(struct browse *browse)
{
	array_each(&browse->lines, line) {
		free(line->text);
		free(line->symbol);
		free(line->module);
		free(line->key);
	}
	browse->lines.count = 0;
	free(take_ptr(browse->head));
	free(take_ptr(browse->sums));
}

static const char *cell_name(const struct table *table, size_t row, const char *name)
{
	int column = table_column(table, name);
	const struct cell *cell = column < 0 ? NULL : &table_row(table, row)[column];

	return cell && cell->set && table->columns[column].kind == COLUMN_TEXT ? cell->text : NULL;
}

static double row_share(const struct table *table, size_t row)
{
	int column = table_column(table, "share");
	const struct cell *cell = column < 0 ? NULL : &table_row(table, row)[column];

	return cell && cell->set && table->columns[column].kind == COLUMN_SHARE ? cell->real : 0;
}

static size_t expansion(struct browse *browse, const char *key)
{
	size_t number = strtab_add(&browse->expanded, key);

	while (browse->is_expanded.count <= number)
		*array_push(&browse->is_expanded) = false;
	return number;
}

static bool is_open(struct browse *browse, const char *key)
{
	size_t number = expansion(browse, key);

	return browse->is_expanded.items[number];
}

static bool is_called(const struct table *graph, size_t row, const char *symbol, const char *module)
{
	const char *relation = cell_name(graph, row, "relation");
	const char *name = cell_name(graph, row, "symbol");
	const char *where = cell_name(graph, row, "module");

	return relation && !strcmp(relation, "caller") && name && !strcmp(name, symbol) &&
	       !(module && where && strcmp(where, module)) && cell_name(graph, row, "other");
}

/* A call site is said where it is known. */
static void caller_add(struct browse *browse, const struct table *graph, size_t row,
		       const char *key, int depth)
{
	const char *other = cell_name(graph, row, "other");
	const char *module = cell_name(graph, row, "other_module");
	const char *place = cell_name(graph, row, "place");
	AUTO(strbuf_deinit) struct strbuf total = {};

	count_put(&total, table_row(graph, row)[table_column(graph, "total")].number);
	*array_push(&browse->lines) = (struct line){
		.text = mem_printf("%*s%8s  called by %s%s%s", 8 + 2 * depth, "",
				   strbuf_text(&total), other, place ? "  " : "",
				   place ? place : ""),
		.symbol = mem_strdup(other),
		.module = module ? mem_strdup(module) : NULL,
		.key = mem_printf("%s\n%s\n%s", key, other, module ? module : ""),
	};
}

/*
 * Who calls the function: rows of the call graph that are about it. Who calls those comes below
 * them where they are expanded in turn, with the samples of all their calls.
 */
static void callers_add(struct browse *browse, const struct table *graph, const char *symbol,
			const char *module, const char *key, int depth)
{
	size_t added = 0;

	for (size_t row = 0; row < graph->row_count && added < CALLERS_MAX; row++) {
		const char *above;

		if (!is_called(graph, row, symbol, module))
			continue;
		caller_add(browse, graph, row, key, depth);
		added++;
		above = browse->lines.items[browse->lines.count - 1].key;
		if (is_open(browse, above))
			callers_add(browse, graph, cell_name(graph, row, "other"),
				    cell_name(graph, row, "other_module"), above, depth + 1);
	}
	if (!added)
		*array_push(&browse->lines) = (struct line){
			.text = mem_printf("%*sno caller was recorded", 8 + 2 * depth, ""),
		};
}

static void lines_make(struct browse *browse, struct table *table, const struct table *graph)
{
	const struct text_options how = { .width = (size_t)COLS,
					  .utf8 = !strcmp(nl_langinfo(CODESET), "UTF-8") };
	char *text = NULL, *rest, *line;
	size_t size, number = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return;
	table->group_column = -1; /* then each row is one line */
	report_text(table, &how, file);
	fclose(file);
	rest = text;
	for (; rest && (line = strsep(&rest, "\n")); number++) {
		size_t row = number - 1;
		bool is_row = number && row < table->row_count;
		const char *symbol = is_row ? cell_name(table, row, "symbol") : NULL;
		const char *module = is_row ? cell_name(table, row, "module") : NULL;
		char *key;

		if (!number) {
			browse->head = mem_strdup(line);
			continue;
		}
		*array_push(&browse->lines) = (struct line){
			.text = mem_strdup(line),
			.symbol = symbol ? mem_strdup(symbol) : NULL,
			.module = module ? mem_strdup(module) : NULL,
			.share = is_row ? row_share(table, row) : 0,
		};
		if (!symbol)
			continue;
		key = mem_printf("%s\n%s", symbol, module ? module : "");
		browse->lines.items[browse->lines.count - 1].key = key;
		if (graph && is_open(browse, key))
			callers_add(browse, graph, symbol, module, key, 0);
	}
	free(text);
}

/* Losses stay in sight wherever the list is. */
static void sums_make(struct browse *browse, const struct table *table)
{
	const struct totals *totals = &table->totals;
	AUTO(strbuf_deinit) struct strbuf text = {};
	uint64_t lost = 0;

	for (size_t i = 0; i < totals->loss_count; i++)
		lost += totals->losses[i].count;
	strbuf_puts(&text, "seen ");
	count_put(&text, totals->seen);
	strbuf_puts(&text, " = kept ");
	count_put(&text, totals->kept);
	strbuf_puts(&text, " + lost ");
	count_put(&text, lost);
	browse->sums = mem_strdup(strbuf_text(&text));
}

/* --- Tables ----------------------------------------------------------------------------------- */

static int view_table(struct profile *profile, const struct view *view,
		      struct view_request *request, struct table **ret)
{
	unsigned domains;
	int err = view_domains(view, profile, request, &domains);

	err = err ? err : profile_need(profile, domains);
	return err ? err : view_run(view, profile, request, ret);
}

/* Samples of the last seconds, where the view can choose them. */
static void window_set(const struct browse *browse, struct profile *profile,
		       const struct view *view, struct view_request *request)
{
	uint32_t last = 0;

	if (!browse->options->window || !(view->takes & TAKES_TIME) ||
	    profile_need(profile, DOMAIN_TICKS))
		return;
	for (size_t i = 0; i < profile->tick_count; i++)
		if (profile->ticks[i].second > last)
			last = profile->ticks[i].second;
	request->has_time = true;
	request->from = last >= browse->options->window ? last - browse->options->window + 1 : 0;
}

/* The call graph, if any function is expanded: of samples, or of what was executed in order. */
static int graph_make(struct browse *browse, struct profile *profile, struct view_code *code,
		      struct table **ret)
{
	const struct view *view = view_find("callgraph");
	struct view_request request = { .min_share = 0,
					.min_invariance = -1,
					.code = view_code_source(code) };
	bool any = false;

	array_each(&browse->is_expanded, it)
		any = any || *it;
	if (!any || !(profile_holds(profile, DOMAIN_SAMPLES) ||
		      profile_holds(profile, DOMAIN_PATHS | DOMAIN_EXECUTED)))
		return 0;
	window_set(browse, profile, view, &request);
	return view_table(profile, view, &request, ret);
}

static int table_show(struct browse *browse, struct profile *profile, struct view_code *code)
{
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(table_destroy_auto) struct table *graph = NULL;
	const struct view *view = browse->views.items[browse->view];
	const char *pattern = browse->filter;
	struct view_request request = { .limit = ROWS_MAX,
					.min_share = -1,
					.min_invariance = -1,
					.people = true,
					.code = view_code_source(code) };
	int err;

	if (*pattern && view->takes & TAKES_SYMBOLS)
		request.filter.symbols = (struct option_texts){ &pattern, 1, 1 };
	window_set(browse, profile, view, &request);
	err = view_table(profile, view, &request, &table);
	err = err ? err : graph_make(browse, profile, code, &graph);
	if (err)
		return err;
	lines_make(browse, table, graph);
	sums_make(browse, table);
	return 0;
}

static int symbol_find(struct browse *browse, const struct profile *profile, uint32_t *ret)
{
	const struct filter everything = {};
	AUTO(free_ptr) struct annotate_match *matches = NULL;
	bool exact, inlined;
	size_t count;

	annotate_find(profile, &everything, browse->annotated, &matches, &count, &exact, &inlined);
	for (size_t i = 0; i < count; i++) {
		const struct profile_symbol *symbol = &profile->symbols[matches[i].symbol];

		if (strcmp(name_of_symbol(profile, matches[i].symbol), browse->annotated))
			continue;
		if (browse->annotated_module &&
		    strcmp(name_of_module(profile, symbol->module), browse->annotated_module))
			continue;
		*ret = matches[i].symbol;
		return 0;
	}
	return err_set(-ENOENT, "%s has no samples of its own", browse->annotated);
}

static int code_show(struct browse *browse, struct profile *profile, struct view_code *code)
{
	AUTO(sources_destroy_auto) struct sources *sources = sources_create(profile);
	AUTO(table_destroy_auto) struct table *table = NULL;
	AUTO(table_destroy_auto) struct table *people = NULL;
	struct sources_reader reader = { .sources = sources };
	bool executed = annotate_is_executed(profile);
	unsigned domains = DOMAIN_TASKS | DOMAIN_CODE | DOMAIN_NAMES;
	uint32_t symbol = 0;
	int err = executed ? 0 : profile_holds_check(profile, DOMAIN_SAMPLES);

	domains |= executed ? DOMAIN_EXECUTED : DOMAIN_SAMPLES;
	if (!executed && profile_holds(profile, DOMAIN_VALUES))
		domains |= DOMAIN_VALUES;
	err = err ? err : profile_need(profile, domains);
	err = err ? err : symbol_find(browse, profile, &symbol);
	err = err ? err : view_annotate(profile, code, symbol, &table);
	if (err)
		return err;
	reader.module = profile->symbols[symbol].module;
	people = annotate_interleave(table, sources_reader_line, &reader);
	lines_make(browse, people, NULL);
	sums_make(browse, table);
	return 0;
}

static void views_find(struct browse *browse, const struct profile *profile)
{
	const struct view_request request = { .min_share = -1, .min_invariance = -1 };
	const char *const *names = browse->options->views;
	unsigned domains;

	browse->views.count = 0;
	for (const struct view *view = views; view->name; view++) {
		bool wanted = !names;

		for (const char *const *name = names; name && *name; name++)
			wanted = wanted || !strcmp(*name, view->name);
		if (wanted && !(view->takes & TAKES_POSITION) &&
		    !view_domains(view, profile, &request, &domains))
			*array_push(&browse->views) = view;
	}
}

/* Everything that is shown, from the profile as it is now. */
static int renew(struct browse *browse)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	AUTO(view_code_deinit) struct view_code code = {};
	const char *path;
	int err = served_path(browse->served, &path);

	browse->generation = served_generation(browse->served);
	err = err ? err : profile_open(path, &profile);
	if (err)
		return err;
	view_code_init(&code, path, profile);
	views_find(browse, profile);
	if (!browse->views.count)
		return err_set(-ENODATA, "the profile has nothing to show");
	if (browse->view >= browse->views.count)
		browse->view = 0;
	lines_clear(browse);
	err = browse->annotated ? code_show(browse, profile, &code)
				: table_show(browse, profile, &code);
	if (browse->at >= browse->lines.count)
		browse->at = browse->lines.count ? browse->lines.count - 1 : 0;
	return err;
}

/* Renews the screen; a failure is shown as a message. */
static void renew_or_tell(struct browse *browse)
{
	free(take_ptr(browse->message));
	if (renew(browse))
		browse->message = mem_strdup(err_text());
}

/* --- The terminal ----------------------------------------------------------------------------- */

static void title_draw(const struct browse *browse)
{
	const struct view *view = browse->views.items[browse->view];
	const char *slash = strrchr(browse->options->title, '/');
	const char *title = slash ? slash + 1 : browse->options->title;

	attron(A_REVERSE);
	mvhline(0, 0, ' ', COLS);
	if (browse->annotated)
		mvprintw(0, 0, " %s: code of %s", title, browse->annotated);
	else
		mvprintw(0, 0, " %s: %s, %s", title, view->name, view->summary);
	if (*browse->filter)
		printw(" (only %s)", browse->filter);
	attroff(A_REVERSE);
	attron(A_BOLD);
	mvaddnstr(1, 0, browse->head ? browse->head : "", COLS);
	attroff(A_BOLD);
}

static void line_draw(const struct line *line, int y, bool chosen)
{
	int pair = line->share >= SHARE_HOT ? PAIR_HOT : line->share >= SHARE_WARM ? PAIR_WARM : 0;

	move(y, 0);
	if (chosen)
		attron(A_REVERSE);
	else if (pair)
		attron(COLOR_PAIR(pair));
	if (chosen)
		hline(' ', COLS);
	addnstr(line->text, COLS);
	attroff(A_REVERSE | COLOR_PAIR(pair));
}

static size_t room(void)
{
	return LINES > FRAME_LINES ? (size_t)(LINES - FRAME_LINES) : 1;
}

/* Keys, or what went wrong, and at the right the sums, as far as there is room for both. */
static void foot_draw(const struct browse *browse)
{
	static const char *const helps[] = {
		"Enter callers  a annotate  / search  Tab view  h help  q quit",
		"Enter callers  a annotate  h help  q quit",
		"h help  q quit",
	};
	int sums = browse->sums ? (int)strlen(browse->sums) : 0;
	const char *text = browse->message;

	for (size_t i = 0; i < sizeof(helps) / sizeof(helps[0]) && !text; i++)
		if ((int)strlen(helps[i]) + 2 + sums <= COLS ||
		    i + 1 == sizeof(helps) / sizeof(helps[0]))
			text = helps[i];
	attron(A_DIM);
	mvaddnstr(LINES - 1, 0, text, COLS);
	attroff(A_DIM);
	if ((int)strlen(text) + 2 + sums <= COLS)
		mvaddstr(LINES - 1, COLS - sums - 1, browse->sums ? browse->sums : "");
}

static void draw(struct browse *browse)
{
	if (browse->at < browse->top)
		browse->top = browse->at;
	if (browse->at >= browse->top + room())
		browse->top = browse->at - room() + 1;
	erase();
	title_draw(browse);
	for (size_t i = 0; i < room() && browse->top + i < browse->lines.count; i++)
		line_draw(&browse->lines.items[browse->top + i], (int)i + 2,
			  browse->top + i == browse->at);
	foot_draw(browse);
	refresh();
}

/* One line of text at the bottom. */
static void ask(struct browse *browse, const char *question, char *ret, int size)
{
	timeout(-1);
	echo();
	curs_set(1);
	mvhline(LINES - 1, 0, ' ', COLS);
	mvprintw(LINES - 1, 0, "%s", question);
	if (getnstr(ret, size - 1) == ERR)
		*ret = '\0';
	curs_set(0);
	noecho();
	timeout(WAIT_MS);
	browse->at = browse->top = 0;
}

static void help(void)
{
	static const char *const texts[] = {
		"Up Down PgUp PgDn Home End   move",
		"Tab, Shift-Tab               the next view, the one before",
		"Enter, e, +                  the callers of a function or of a caller, or not",
		"a                            its instructions with samples and values",
		"/                            only functions with a name; nothing shows all again",
		"r                            look at the profile again",
		"q, Escape                    back; quit",
	};

	erase();
	for (int i = 0; i < (int)(sizeof(texts) / sizeof(texts[0])); i++)
		mvaddnstr(i + 1, 2, texts[i], COLS);
	mvaddstr(LINES - 1, 0, "Any key goes back");
	refresh();
	timeout(-1);
	getch();
	timeout(WAIT_MS);
}

static const struct line *chosen(const struct browse *browse)
{
	return browse->at < browse->lines.count ? &browse->lines.items[browse->at] : NULL;
}

static void expand(struct browse *browse)
{
	const struct line *line = chosen(browse);
	size_t number;

	if (browse->annotated || !line || !line->key)
		return;
	number = expansion(browse, line->key);
	browse->is_expanded.items[number] = !browse->is_expanded.items[number];
	renew_or_tell(browse);
}

static void annotate_begin(struct browse *browse)
{
	const struct line *line = chosen(browse);

	if (browse->annotated || !line || !line->symbol)
		return;
	browse->annotated = mem_strdup(line->symbol);
	browse->annotated_module = line->module ? mem_strdup(line->module) : NULL;
	renew_or_tell(browse);
	browse->at = browse->top = 0;
}

static void back(struct browse *browse)
{
	if (!browse->annotated) {
		browse->done = true;
		return;
	}
	free(take_ptr(browse->annotated));
	free(take_ptr(browse->annotated_module));
	browse->at = browse->top = 0;
	renew_or_tell(browse);
}

static void view_turn(struct browse *browse, size_t by)
{
	free(take_ptr(browse->annotated));
	free(take_ptr(browse->annotated_module));
	browse->view = (browse->view + by) % browse->views.count;
	browse->at = browse->top = 0;
	renew_or_tell(browse);
}

static void move_by(struct browse *browse, long by)
{
	long last = browse->lines.count ? (long)browse->lines.count - 1 : 0;
	long at = (long)browse->at + by;

	browse->at = (size_t)(at < 0 ? 0 : at > last ? last : at);
}

static bool moved(struct browse *browse, int key)
{
	switch (key) {
	case KEY_UP:
	case 'k':
		move_by(browse, -1);
		return true;
	case KEY_DOWN:
	case 'j':
		move_by(browse, 1);
		return true;
	case KEY_PPAGE:
		move_by(browse, -(long)room());
		return true;
	case KEY_NPAGE:
	case ' ':
		move_by(browse, (long)room());
		return true;
	case KEY_HOME:
		browse->at = 0;
		return true;
	case KEY_END:
		move_by(browse, (long)browse->lines.count);
		return true;
	default:
		return false;
	}
}

static void key_handle(struct browse *browse, int key)
{
	if (moved(browse, key))
		return;
	switch (key) {
	case KEY_INTERRUPT:
		browse->done = true;
		break;
	case 'q':
	case KEY_ESCAPE:
		back(browse);
		break;
	case '\n':
	case KEY_ENTER:
	case 'e':
	case '+':
		expand(browse);
		break;
	case 'a':
		annotate_begin(browse);
		break;
	case '\t':
		view_turn(browse, 1);
		break;
	case KEY_BTAB:
		view_turn(browse, browse->views.count - 1);
		break;
	case '/':
		ask(browse, "Only functions with: ", browse->filter, FILTER_MAX);
		renew_or_tell(browse);
		break;
	case 'h':
	case '?':
		help();
		break;
	case 'r':
		served_look_now(browse->served);
		renew_or_tell(browse);
		break;
	case KEY_RESIZE:
		renew_or_tell(browse);
		break;
	default:
		break;
	}
}

static void loop(struct browse *browse)
{
	while (!browse->done) {
		int key;

		draw(browse);
		key = getch();
		if (key != ERR)
			key_handle(browse, key);
		else if (served_generation(browse->served) != browse->generation)
			renew_or_tell(browse);
	}
}

static int terminal_begin(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return err_set(-ENOTTY, "this needs a terminal; 'assay report' prints text");
	set_escdelay(25);
	if (!newterm(NULL, stdout, stdin))
		return err_set(-ENOTTY, "the terminal '%s' is not known; set TERM",
			       getenv("TERM") ? getenv("TERM") : "");
	raw(); /* Ctrl-C is a key like others: the terminal is left as it was */
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	timeout(WAIT_MS);
	if (has_colors()) {
		start_color();
		use_default_colors();
		init_pair(PAIR_HOT, COLOR_RED, -1);
		init_pair(PAIR_WARM, COLOR_GREEN, -1);
	}
	return 0;
}

static void view_begin(struct browse *browse)
{
	for (size_t i = 0; i < browse->views.count; i++)
		if (!strcmp(browse->views.items[i]->name, browse->options->view))
			browse->view = i;
}

static void browse_deinit(struct browse *browse)
{
	lines_clear(browse);
	array_deinit(&browse->lines);
	array_deinit(&browse->views);
	array_deinit(&browse->is_expanded);
	strtab_deinit(&browse->expanded);
	free(browse->annotated);
	free(browse->annotated_module);
	free(browse->message);
}

/* Loads the profile before curses takes the terminal, so that errors are printed normally. */
static int first_look(struct browse *browse)
{
	AUTO(profile_destroy_auto) struct profile *profile = NULL;
	const char *path;
	int err = served_path(browse->served, &path);

	err = err ? err : profile_open(path, &profile);
	if (err)
		return err;
	views_find(browse, profile);
	view_begin(browse);
	return browse->views.count ? 0 : err_set(-ENODATA, "the profile has nothing to show");
}

int browse_run(struct served *served, const struct browse_options *options)
{
	AUTO(browse_deinit) struct browse browse = { .served = served, .options = options };
	int err = first_look(&browse);

	err = err ? err : terminal_begin();
	if (err)
		return err;
	log_quiet_set(true);
	renew_or_tell(&browse);
	loop(&browse);
	endwin();
	log_quiet_set(false);
	return 0;
}
