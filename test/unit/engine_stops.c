/*
 * Stops commands wherever they can notice, and tests the engine afterwards.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine_compare.h"
#include "engine_drive.h"
#include "engine_ends.h"
#include "engine_stops.h"
#include "plain_draw.h"

/* Candidates are a few, or are added to a few. */
#define FEW 0x100
#define MORE 0x200
/* Rows are those of the caller. */
#define OWN_ROWS 0x400
/* Sums of a step are given to the caller, whole or what changed. */
#define GIVE 0x800
#define CHANGES 0x1000
/* Labels of rows are asked for. */
#define LABELS 0x2000
#define END (-1)

#define MANY_LOOKS (INT64_C(1) << 40)

/* Slow builds use fewer rows at random. */
#ifdef SLOW
#define FEWER 5
#else
#define FEWER 1
#endif

/* The last command of each script is stopped; those before it prepare it. */
static const int scripts[][12] = {
	{GK_SEAL, END},
	{GK_RANGE, END},
	{GK_MOMENTS, END},
	{GK_ROWS, END},
	{GK_CANDIDATES, LABELS | GK_ROWS, END},
	{GK_COMPARE, END},
	{GK_SEPARATION, END},
	{GK_MERGE, END},
	{OWN_ROWS | GK_SEPARATION, END},
	{GK_GRID, END},
	{GK_SEAL, GK_TRANSFORM, END},
	{FEW | GK_CANDIDATES, END},
	{GK_CANDIDATES, END},
	{FEW | GK_CANDIDATES, MORE | GK_CANDIDATES, END},
	{GK_CANDIDATES, GK_POTENTIALS, END},
	{GK_CENTROIDS, GK_CANDIDATES, GK_MASSES, END},
	{GK_CENTROIDS, GK_CANDIDATES, GK_ENTRIES, END},
	{GK_CANDIDATES, GK_DRAW, END},
	{FEW | GK_CANDIDATES, MORE | GK_DRAW, END},
	{FEW | GK_CANDIDATES, MORE | GK_DRAW, GK_MASSES, END},
	{GK_GRID, GK_CANDIDATES, GK_LABEL_WEIGHTS, END},
	{GK_CANDIDATES, GK_CENTROIDS, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_RELOCATE, GK_STEP, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_RELOCATE, GK_RELOCATE, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_MOVE, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_MOVE, CHANGES | GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_MOVE, CHANGES | GK_STEP, GK_DISTANCES,
		CHANGES | GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_MOVE, CHANGES | GK_STEP, GK_MOVE, GK_STEP, GK_STEP,
		END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_MOVE, GIVE | GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_DISTANCES, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_DISTANCES, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_DISTANCES, GK_FARTHEST, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_DISTANCES, GK_FARTHEST, GK_RELOCATE, END},
	{GK_GRID, GK_CENTROIDS, GK_ASSIGN, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_RELOCATE, GK_STEP, GK_ASSIGN, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_ASSIGN, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_ASSIGN, GK_STATISTICS, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_SQUARES, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GIVE | GK_STEP, GK_SQUARES, GK_STEP, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_ASSIGN, GK_SQUARES, END},
	{GK_GRID, GK_CENTROIDS, GK_STEP, GK_GET_CENTROIDS, END}
};

#define SCRIPTS ((int) (sizeof(scripts) / sizeof(*scripts)))

/* An engine and what it answers. */
typedef struct Side
{
	GkEngine   *engine;
	GkCommand	command;		/* the last one of the script */
	char	   *answer;			/* its outputs, then labels, d², centroids where known */
	size_t		bytes;
} Side;

/* The state of a test on a data set. */
typedef struct Work
{
	Stopper    *stopper;
	const Data *data;
	Room		room;
	Side		tested;
	Side		calm;			/* never stopped */
	bool		leaves_draw;	/* the tested engine has left its last draw to the caller */
	int		   *exponents;		/* 2 × (d + 1): of the moments and the squares */
	double		greatest;		/* no weight × d² is above it */
	bool		good;
} Work;

/* Records a failure, and prints the first one. */
static void
note_wrong(Work *work, const int *script, int64_t look, const char *what)
{
	if (work->good)
	{
		printf("# %s, n %lld, d %d, k %lld, %s, threads %d, look %lld: %s after",
			   kind_name(work->data->kind), (long long) work->data->n, work->data->d,
			   (long long) work->data->k, work->data->weighted ? "weighted" : "not weighted",
			   work->stopper->feeding.threads, (long long) look, what);
		for (; *script != END; script++)
			printf(" %d%s", *script & 0xff, *script > 0xff ? "*" : "");
		printf("\n");
	}
	work->good = false;
}

/* Sets the grids of a command, so that no sum overflows. */
static void
set_grids(Work *work, GkCommand *c)
{
	const Data *data = work->data;
	int			exponent = mass_exponent(data->n, work->greatest);

	if (c->operation == GK_MOMENTS)
	{
		c->moments.pivot = data->center;
		c->moments.first_exponents = work->exponents;
		c->moments.second_exponents = work->exponents + data->d;
	}
	if (c->operation == GK_GRID)
	{
		c->grid.wide = data->wide;
		c->grid.exponents = data->exponents;
		c->grid.origin = data->center;
	}
	if (c->operation == GK_POTENTIALS)
		c->potentials.exponent = exponent;
	if (c->operation == GK_MASSES)
		c->masses.exponent = exponent;
	if (c->operation == GK_ENTRIES)
		c->entries.exponent = exponent;
	if (c->operation == GK_DRAW)
		c->draw.exponent = exponent;
	if (c->operation == GK_STATISTICS)
		c->statistics.inertia_exponent = c->statistics.distance_exponent = exponent;
	if (c->operation == GK_SQUARES)
		c->squares.exponents = work->exponents + data->d;
}

/* A command of a script. */
static GkCommand
make(Work *work, int word)
{
	const Data *data = work->data;
	bool		many = (word & FEW) == 0 && (word & 0xff) != GK_MERGE;
	GkCommand	c = fill_command(word & 0xff, &work->room, many);

	set_grids(work, &c);
	if (word & MORE)
		*(c.operation == GK_DRAW ? &c.draw.first_label : &c.candidates.first_label) =
			data->k < 5 ? data->k : 5;
	if (word & OWN_ROWS)
		c.separation.features = data->x;
	if (word & (GIVE | CHANGES))
		c.step.sums = work->room.out[0];
	if (word & CHANGES)
		c.step.changes = true;
	if (word & LABELS)
		c.rows.labels = work->room.out[2];
	if (c.operation == GK_CENTROIDS)
		c.centroids.spherical = data->spherical;
	if (c.operation == GK_FARTHEST)
		c.farthest.count = data->n < data->k ? data->n : data->k;
	return c;
}

/* Puts the rows into an engine again. */
static void
refill(Work *work, GkEngine *engine)
{
	check_status(engine->class_of->clear(engine));
	check_status(append_all(engine, work->data));
}

/* The last command of a script. */
static int
last_of(const int *script)
{
	while (script[1] != END)
		script++;
	return script[0];
}

/* Runs a part of a draw. */
static void
run_part(void *engine, GkCommand *c)
{
	run(engine, c);
}

/* Runs a command; of the engine that is never stopped, a draw is made or left as of the other. */
static void
run_on(Work *work, Side *side, GkCommand *c)
{
	PlainDrawer drawer = {
		.engine = side->engine,.run = run_part,.rows = work->data->n,.d = work->data->d
	};

	if (c->operation != GK_DRAW)
		run(side->engine, c);
	else if (side == &work->tested)
	{
		run(side->engine, c);
		work->leaves_draw = c->draw.found < 0;
	}
	else if (work->leaves_draw)
		c->draw.found = -1;
	else
		plain_draw(&drawer, c);
}

/* True if these are the last two commands of a script. */
static bool
ends_with(const int *script, int before, int last)
{
	while (script[1] != END && script[2] != END)
		script++;
	return script[0] == before && script[1] == last;
}

/* Runs the commands of a script before the last one, and returns that. */
static int
run_before_last(Work *work, Side *side, const int *script)
{
	if (script[0] == GK_SEAL)
		refill(work, side->engine);
	for (; script[1] != END; script++)
	{
		GkCommand	c = make(work, script[0]);

		run_on(work, side, &c);
	}
	return script[0];
}

/* Appends to an answer. */
static void *
more_answer(Side *side, size_t bytes)
{
	bytes = (bytes + 15) / 16 * 16;
	side->answer = realloc(side->answer, side->bytes + bytes + 1);
	memset(side->answer + side->bytes, 0, bytes);
	side->bytes += bytes;
	return side->answer + side->bytes - bytes;
}

/* Appends labels and d² to the answer, if the last command has computed them. */
static void
answer_rows(Work *work, Side *side, GkOperation last)
{
	const GkEngineClass *class_of = side->engine->class_of;
	int64_t		n = work->data->n;
	bool		distances = last == GK_CANDIDATES || last == GK_DRAW || last == GK_DISTANCES ||
		last == GK_ASSIGN;
	int32_t    *labels;

	if (!distances && last != GK_SEAL && last != GK_CENTROIDS && last != GK_STEP)
		return;
	labels = more_answer(side, n * sizeof(int32_t));
	check_status(class_of->fetch(side->engine, 0, n, labels, NULL));
	if (distances)
		check_status(class_of->fetch(side->engine, 0, n, NULL,
									 more_answer(side, n * sizeof(double))));
}

/* Appends the rows after a transformation, the centroids after a command that moves them. */
static void
answer_features(Work *work, Side *side, GkOperation last)
{
	const Data *data = work->data;
	int64_t    *rows = malloc(data->n * sizeof(int64_t));
	GkCommand	c = {.operation = GK_GET_CENTROIDS};

	for (int64_t i = 0; i < data->n; i++)
		rows[i] = i;
	if (last == GK_STEP || last == GK_MOVE || last == GK_RELOCATE || last == GK_CENTROIDS)
	{
		c.get_centroids.centroids = more_answer(side, data->k * data->d * sizeof(double));
		run(side->engine, &c);
	}
	if (last == GK_TRANSFORM)
	{
		c = (GkCommand) {.operation = GK_ROWS};
		c.rows.rows = rows;
		c.rows.count = data->n;
		c.rows.features = more_answer(side, data->n * data->d * sizeof(float));
		run(side->engine, &c);
	}
	free(rows);
}

/* Runs a whole script to its end, and takes the answer. */
static void
run_script(Work *work, Side *side, const int *script)
{
	int			last = run_before_last(work, side, script);

	for (int i = 0; i < 5; i++)
		memset(work->room.out[i], 0, work->room.bytes);
	memset(work->room.is_empty, 0, work->data->k);
	side->command = make(work, last);
	side->bytes = 0;
	run_on(work, side, &side->command);
	for (int i = 0; i < 5; i++)
		memcpy(more_answer(side, work->room.bytes), work->room.out[i], work->room.bytes);
	memcpy(more_answer(side, work->data->k), work->room.is_empty, work->data->k);
	answer_rows(work, side, last & 0xff);
	answer_features(work, side, last & 0xff);
}

/* Compares the answers to a script. */
static void
compare_answers(Work *work, const int *script, int64_t look)
{
	if (memcmp(&work->tested.command, &work->calm.command, sizeof(GkCommand)) != 0 ||
		work->tested.bytes != work->calm.bytes ||
		memcmp(work->tested.answer, work->calm.answer, work->calm.bytes) != 0)
		note_wrong(work, script, look, "another answer");
}

/*
 * Stops the last command of a script at a check.  It must report that it did not end, unless it
 * made fewer checks.
 */
static void
stop_once(Work *work, const int *script, int64_t look)
{
	GkEngine   *engine = work->tested.engine;
	GkCommand	c = make(work, run_before_last(work, &work->tested, script));
	GkCode		stopped = work->stopper->code == GK_OK ? GK_INTERNAL : work->stopper->code;
	GkStatus	status;
	int64_t		left;

	(void) work->stopper->plan(engine, look);
	status = run_one(engine, &c);
	left = work->stopper->plan(engine, 0);
	work->stopper->stops += left == 0;
	if (status.code != (left == 0 ? stopped : GK_OK))
		note_wrong(work, script, look, left == 0 ? "a stop that is none" : "an error");
}

/* Runs any command on an engine that was stopped: it may be refused. */
static void
run_any(Work *work, const int *script, int64_t look)
{
	GkOperation operation = command_order[random_bits() % COMMANDS];
	GkCommand	c = make(work, operation);
	GkStatus	status;

	if (operation == GK_TRANSFORM || operation == GK_SEAL)
		return;
	status = run_one(work->tested.engine, &c);
	work->stopper->refused += status.code == GK_INTERNAL;
	if (status.code != GK_INTERNAL && status.code != GK_OK)
		note_wrong(work, script, look, "an error");
}

/*
 * After a stop of GK_DISTANCES, which changes no sums: what changed since the step before is
 * nothing, or is not known any more.
 */
static void
check_unchanged(Work *work, const int *script, int64_t look)
{
	GkCommand	c = make(work, CHANGES | GK_STEP);
	int64_t		count = work->data->k * (work->data->d + 1) * 2;

	memset(c.step.sums, 0, count * sizeof(int64_t));
	if (run_one(work->tested.engine, &c).code != GK_OK)
		return;
	for (int64_t i = 0; i < count; i++)
		if (c.step.sums[i] != 0)
		{
			note_wrong(work, script, look, "changes of sums where there are none");
			break;
		}
}

/* After a stop of GK_SQUARES, the rows have the d² that they had before. */
static void
check_distances(Work *work, const int *script, int64_t look)
{
	int64_t		n = work->data->n;
	double	   *distances[2];

	for (int e = 0; e < 2; e++)
	{
		GkEngine   *engine = (e == 0 ? &work->tested : &work->calm)->engine;

		distances[e] = calloc(n, sizeof(double));
		if (engine->class_of->fetch(engine, 0, n, NULL, distances[e]).code != GK_OK)
			note_wrong(work, script, look, "no d²");
	}
	if (memcmp(distances[0], distances[1], n * sizeof(double)) != 0)
		note_wrong(work, script, look, "other d²");
	free(distances[0]);
	free(distances[1]);
}

/* Opens the engine that is to be stopped, with all rows in it. */
static void
open_tested(Work *work)
{
	Stopper    *stopper = work->stopper;
	GkCommand	seal = {.operation = GK_SEAL};
	GkCommand	grid = make(work, GK_GRID);

	work->tested.engine = open_engine(stopper->tested, work->data->weighted, stopper->feeding);
	check_status(append_all(work->tested.engine, work->data));
	run(work->tested.engine, &seal);
	run(work->tested.engine, &grid);
}

/* Closes the engine that was stopped, and opens another one. */
static void
replace_tested(Work *work)
{
	work->tested.engine->class_of->close(work->tested.engine);
	open_tested(work);
}

/* Stops a script at a check: afterwards the engine can be used again, or closed. */
static void
stop_at(Work *work, const int *script, int64_t look)
{
	bool		distances = last_of(script) == GK_DISTANCES;

	stop_once(work, script, look);
	if (distances && random_bits() % 2)
		check_unchanged(work, script, look);
	if (ends_with(script, GK_ASSIGN, GK_SQUARES))
		check_distances(work, script, look);
	if (random_bits() % 2)
		run_any(work, script, look);
	if (script[0] == GK_SEAL || script[1] == END || random_bits() % 4)
	{
		run_script(work, &work->tested, script);
		compare_answers(work, script, look);
	}
	stop_once(work, script, look);
	replace_tested(work);
}

/* Counts the checks of a script's last command; compares its answer. */
static int64_t
count_looks(Work *work, const int *script)
{
	GkEngine   *engine = work->tested.engine;
	GkCommand	c;

	run_script(work, &work->tested, script);
	run_script(work, &work->calm, script);
	compare_answers(work, script, 0);
	c = make(work, run_before_last(work, &work->tested, script));
	(void) work->stopper->plan(engine, MANY_LOOKS);
	run(engine, &c);
	return MANY_LOOKS - work->stopper->plan(engine, 0);
}

/* An upper bound of weight × d², weight × d and weight. */
static double
greatest_mass(const Data *data)
{
	double		value = 1.0;
	double		weight = 1.0;

	for (int64_t i = 0; i < data->n * data->d; i++)
		value = fmax(value, fabs((double) data->x[i]));
	for (int64_t i = 0; i < data->k * data->d; i++)
		value = fmax(value, fabs(data->centroids[i]));
	for (int64_t i = 0; i < data->n && data->weighted; i++)
		weight = fmax(weight, data->w[i]);
	return 4 * value * value * data->d * weight;
}

/* Both engines with the data in them. */
static Work
begin_work(Stopper *stopper, const Data *data)
{
	Work		work = {.stopper = stopper,.data = data,.room = make_room(data),.good = true};
	GkCommand	grid;
	GkCommand	seal = {.operation = GK_SEAL};

	work.exponents = malloc(2 * (data->d + 1) * sizeof(int));
	work.greatest = greatest_mass(data);
	for (int j = 0; j < 2 * (data->d + 1); j++)
		work.exponents[j] = mass_exponent(data->n, work.greatest);
	open_tested(&work);
	work.calm.engine = open_engine(stopper->oracle, data->weighted, stopper->feeding);
	check_status(append_all(work.calm.engine, data));
	run(work.calm.engine, &seal);
	grid = make(&work, GK_GRID);
	run(work.calm.engine, &grid);
	return work;
}

/* Closes both engines; true if everything was right. */
static bool
end_work(Work *work)
{
	work->tested.engine->class_of->close(work->tested.engine);
	work->calm.engine->class_of->close(work->calm.engine);
	free(work->tested.answer);
	free(work->calm.answer);
	free(work->exponents);
	free_room(&work->room);
	return work->good;
}

/* Stops every command on the data; the engine must then behave as if it had never been stopped. */
bool
stop_everywhere(Stopper *stopper, const Data *data)
{
	Work		work = begin_work(stopper, data);

	for (int i = 0; i < SCRIPTS; i++)
	{
		int64_t		looks = count_looks(&work, scripts[i]);

		for (int64_t look = 1; look <= looks && look <= stopper->first; look++)
			stop_at(&work, scripts[i], look);
		for (int64_t j = 0; j < stopper->others && looks > stopper->first; j++)
			stop_at(&work, scripts[i], stopper->first + 1 +
					(int64_t) (random_bits() % (uint64_t) (looks - stopper->first)));
	}
	return end_work(&work);
}

/* A random data set that has many ties, or few. */
static Data
random_data(void)
{
	static const Kind kinds[] = {LATTICE, COPIES, EQUAL, NEAR_TIES, NORMAL, CROWDS};
	static const int dimensions[] = {1, 2, 7, 17, 64, 130, 300};
	int			d = dimensions[random_bits() % 7];
	int64_t		n = 1 + (int64_t) (random_bits() % (3000 / FEWER));
	int64_t		k = 2 + (int64_t) (random_bits() % (300 / FEWER));

	n = n < k ? k : n;
	return make_data(kinds[random_bits() % 6], n, d, k, random_bits() % 2, random_bits() % 2,
					 false);
}

/* Stops random commands on random data at random checks for this many seconds. */
bool
stop_at_random(Stopper *stopper, double seconds)
{
	static const int threads[] = {1, 2, 3, 8};
	double		start = now();
	bool		good = true;

	while (now() - start < seconds)
	{
		Data		data = random_data();
		Work		work;

		stopper->feeding.threads = threads[random_bits() % 4];
		work = begin_work(stopper, &data);
		for (int i = 0; i < 10 && now() - start < seconds; i++)
		{
			const int  *script = scripts[random_bits() % SCRIPTS];
			int64_t		looks = count_looks(&work, script);

			for (int j = 0; j < 5 && looks > 0; j++)
				stop_at(&work, script, 1 + (int64_t) (random_bits() % (uint64_t) looks));
		}
		good &= end_work(&work);
		free_data(&data);
	}
	return good;
}
