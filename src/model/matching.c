/*
 * The matching of the clusters of two clusterings.
 *
 * Exactly: the assignment problem by shortest augmenting paths (Jonker and Volgenant 1987).  Each
 * row and column has a price; costs less the prices are never negative, and 0 where matched.
 */
#include "postgres.h"

#include <math.h>

#include "miscadmin.h"

#include "alloc.h"
#include "matching.h"
#include "nearest.h"

/* The number of nearest others of a point that one round of a greedy matching examines. */
#define NEIGHBOURS 8

/* Rounds go on while they match one of so many points that are left. */
#define LEAST_SHARE 8

/* The state of an assignment; never more rows than columns. */
typedef struct Assignment
{
	int			rows;
	int			columns;
	const double *costs;		/* rows × columns */
	double	   *row_prices;
	double	   *column_prices;
	int32	   *column_of;		/* rows; -1 = not matched yet */
	int32	   *row_of;			/* columns; -1 = free */

	/* of the search for a path, by column */
	double	   *lengths;		/* of the shortest path to it */
	int32	   *previous;		/* the row before it on that path */
	bool	   *is_reached;		/* the length is final */
} Assignment;

/* Allocates the assignment of this many rows to this many columns. */
static void
begin_assignment(Assignment *assignment, const double *costs, int rows, int columns)
{
	assignment->rows = rows;
	assignment->columns = columns;
	assignment->costs = costs;
	assignment->row_prices = gk_allocate(rows, sizeof(double));
	assignment->column_prices = gk_allocate_zero(columns, sizeof(double));
	assignment->column_of = gk_allocate(rows, sizeof(int32));
	assignment->row_of = gk_allocate(columns, sizeof(int32));
	assignment->lengths = gk_allocate(columns, sizeof(double));
	assignment->previous = gk_allocate(columns, sizeof(int32));
	assignment->is_reached = gk_allocate(columns, sizeof(bool));
	for (int i = 0; i < rows; i++)
		assignment->column_of[i] = -1;
	for (int j = 0; j < columns; j++)
		assignment->row_of[j] = -1;
}

/* Frees it. */
static void
end_assignment(Assignment *assignment)
{
	pfree(assignment->row_prices);
	pfree(assignment->column_prices);
	pfree(assignment->column_of);
	pfree(assignment->row_of);
	pfree(assignment->lengths);
	pfree(assignment->previous);
	pfree(assignment->is_reached);
}

/* Gives each row its cheapest column, as far as these are free: most rows keep it. */
static void
match_cheapest(Assignment *assignment)
{
	for (int i = 0; i < assignment->rows; i++)
	{
		const double *costs = assignment->costs + (int64) i * assignment->columns;
		int			cheapest = 0;

		CHECK_FOR_INTERRUPTS();
		for (int j = 1; j < assignment->columns; j++)
			if (costs[j] < costs[cheapest])
				cheapest = j;
		assignment->row_prices[i] = costs[cheapest];
		if (assignment->row_of[cheapest] >= 0)
			continue;
		assignment->row_of[cheapest] = i;
		assignment->column_of[i] = cheapest;
	}
}

/* Lengthens the path to a row by each column not reached yet; the nearest of these. */
static int
extend_path(Assignment *assignment, int row, double length)
{
	const double *costs = assignment->costs + (int64) row * assignment->columns;
	int			nearest = -1;

	for (int j = 0; j < assignment->columns; j++)
	{
		double		through;

		if (assignment->is_reached[j])
			continue;
		through = length + (costs[j] - assignment->row_prices[row] -
							assignment->column_prices[j]);
		if (through < assignment->lengths[j])
		{
			assignment->lengths[j] = through;
			assignment->previous[j] = row;
		}
		if (nearest < 0 || assignment->lengths[j] < assignment->lengths[nearest] ||
			(assignment->lengths[j] == assignment->lengths[nearest] &&
			 assignment->row_of[j] < 0 && assignment->row_of[nearest] >= 0))
			nearest = j;
	}
	return nearest;
}

/* Moves the prices, so that the path costs nothing. */
static void
settle_prices(Assignment *assignment, int row, int free_column)
{
	double		length = assignment->lengths[free_column];

	assignment->row_prices[row] += length;
	for (int j = 0; j < assignment->columns; j++)
		if (assignment->is_reached[j] && j != free_column)
		{
			assignment->row_prices[assignment->row_of[j]] += length - assignment->lengths[j];
			assignment->column_prices[j] -= length - assignment->lengths[j];
		}
}

/* Matches one more row along the shortest path to a free column. */
static void
match_row(Assignment *assignment, int row)
{
	int			column = -1;
	int			at = row;
	double		length = 0.0;

	for (int j = 0; j < assignment->columns; j++)
	{
		/* where no path is shorter, because costs are infinite: straight from the row */
		assignment->lengths[j] = HUGE_VAL;
		assignment->previous[j] = row;
		assignment->is_reached[j] = false;
	}
	while (column < 0 || assignment->row_of[column] >= 0)
	{
		CHECK_FOR_INTERRUPTS();
		column = extend_path(assignment, at, length);
		assignment->is_reached[column] = true;
		length = assignment->lengths[column];
		at = assignment->row_of[column];
	}
	settle_prices(assignment, row, column);
	do
	{
		int			next;

		at = assignment->previous[column];
		next = assignment->column_of[at];
		assignment->row_of[column] = at;
		assignment->column_of[at] = column;
		column = next;
	} while (at != row);
}

/* Rows and columns exchanged. */
static double *
transpose(const double *costs, int rows, int columns)
{
	double	   *transposed = gk_allocate((int64) rows * columns, sizeof(double));

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
			transposed[(int64) j * rows + i] = costs[(int64) i * columns + j];
	return transposed;
}

/* The matching of the least total cost. */
void
gk_match_exactly(const double *costs, int rows, int columns, int32 *match)
{
	bool		is_turned = rows > columns;
	double	   *turned = is_turned ? transpose(costs, rows, columns) : NULL;
	Assignment	assignment;

	begin_assignment(&assignment, is_turned ? turned : costs, Min(rows, columns),
					 Max(rows, columns));
	match_cheapest(&assignment);
	for (int i = 0; i < assignment.rows; i++)
		if (assignment.column_of[i] < 0)
			match_row(&assignment, i);
	memcpy(match, is_turned ? assignment.row_of : assignment.column_of, rows * sizeof(int32));
	end_assignment(&assignment);
	if (is_turned)
		pfree(turned);
}

/* The order of pairs: by cost, then row, then column. */
static int
compare_pairs(const void *a, const void *b, void *argument)
{
	const GkMatchPair *left = a;
	const GkMatchPair *right = b;

	if (left->cost != right->cost)
		return left->cost < right->cost ? -1 : 1;
	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	return (left->column > right->column) - (left->column < right->column);
}

/* Takes pairs, the cheapest first, of which neither is matched yet; how many. */
static int
take_pairs(GkMatchPair *pairs, int64 count, int32 *match, bool *is_taken)
{
	int			taken = 0;

	qsort_interruptible(pairs, count, sizeof(GkMatchPair), compare_pairs, NULL);
	for (int64 i = 0; i < count; i++)
	{
		const GkMatchPair *pair = &pairs[i];

		CHECK_FOR_INTERRUPTS();
		if (match[pair->row] >= 0 || is_taken[pair->column])
			continue;
		match[pair->row] = pair->column;
		is_taken[pair->column] = true;
		taken++;
	}
	return taken;
}

/* Takes the cheapest pair again and again. */
void
gk_match_greedily(GkMatchPair *pairs, int64 count, int rows, int columns, int32 *match)
{
	bool	   *is_taken = gk_allocate_zero(columns, sizeof(bool));

	for (int i = 0; i < rows; i++)
		match[i] = -1;
	take_pairs(pairs, count, match, is_taken);
	pfree(is_taken);
}

/* Packs the points that are not taken; how many, and in `numbers` which they are. */
static int
pack_free(const double *points, int count, int dimension, const bool *is_taken, double *packed,
		  int32 *numbers)
{
	int			left = 0;

	for (int j = 0; j < count; j++)
	{
		CHECK_FOR_INTERRUPTS();
		if (!is_taken[j])
		{
			gk_pack_centroid(packed, dimension, left, points + (int64) j * dimension);
			numbers[left++] = j;
		}
	}
	gk_pack_rest(packed, dimension, left);
	return left;
}

/* The nearest few of some numbered distances, as pairs of a row. */
static int
nearest_pairs(const double *distances, const int32 *numbers, int count, int row,
			  GkMatchPair *pairs)
{
	int			found = 0;

	for (int j = 0; j < count; j++)
	{
		int			at = found;

		if (found == NEIGHBOURS && !(distances[j] < pairs[found - 1].cost))
			continue;
		if (found < NEIGHBOURS)
			found++;
		else
			at--;
		for (; at > 0 && distances[j] < pairs[at - 1].cost; at--)
			pairs[at] = pairs[at - 1];
		pairs[at] = (GkMatchPair) {distances[j], row, numbers[j]};
	}
	return found;
}

/* What a greedy matching of many points works with. */
typedef struct Rounds
{
	const double *from;			/* rows × dimension */
	const double *to;			/* columns × dimension */
	int			rows;
	int			columns;
	int			dimension;
	int32	   *match;			/* rows */
	bool	   *is_taken;		/* columns */
	GkMatchPair *pairs;			/* rows × NEIGHBOURS */
	double	   *packed;			/* the free columns */
	int32	   *numbers;		/* which they are */
	double	   *distances;		/* of a row to them */
} Rounds;

/* Lists the nearest free columns of each row that is left; how many pairs. */
static int64
list_pairs(Rounds *rounds, int free_columns)
{
	int64		count = 0;

	for (int i = 0; i < rounds->rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (rounds->match[i] >= 0)
			continue;
		gk_distances2(rounds->packed, rounds->from + (int64) i * rounds->dimension,
					  rounds->dimension, free_columns, rounds->distances);
		count += nearest_pairs(rounds->distances, rounds->numbers, free_columns, i,
							   rounds->pairs + count);
	}
	return count;
}

/* Matches a row with the nearest of the columns that are packed and still free. */
static void
match_nearest(Rounds *rounds, int row, int free_columns)
{
	int			nearest = -1;

	CHECK_FOR_INTERRUPTS();
	gk_distances2(rounds->packed, rounds->from + (int64) row * rounds->dimension,
				  rounds->dimension, free_columns, rounds->distances);
	for (int j = 0; j < free_columns; j++)
		if (!rounds->is_taken[rounds->numbers[j]] &&
			(nearest < 0 || rounds->distances[j] < rounds->distances[nearest]))
			nearest = j;
	rounds->match[row] = rounds->numbers[nearest];
	rounds->is_taken[rounds->numbers[nearest]] = true;
}

/*
 * Matches so many rows that are left in one pass, in the order of their pairs: where the same few
 * columns are nearest to all rows, a round could match no more than those.
 */
static void
match_rest(Rounds *rounds, int left, int64 count, int free_columns)
{
	for (int64 i = 0; i < count && left > 0; i++)
		if (rounds->match[rounds->pairs[i].row] < 0)
		{
			match_nearest(rounds, rounds->pairs[i].row, free_columns);
			left--;
		}
}

/* Matches many points greedily, in rounds: each that is left may choose among its nearest. */
static void
match_in_rounds(Rounds *rounds)
{
	int			left = Min(rounds->rows, rounds->columns);

	for (int i = 0; i < rounds->rows; i++)
		rounds->match[i] = -1;
	while (left > 0)
	{
		int			free_columns = pack_free(rounds->to, rounds->columns, rounds->dimension,
											 rounds->is_taken, rounds->packed, rounds->numbers);
		int64		count = list_pairs(rounds, free_columns);
		int			taken = take_pairs(rounds->pairs, count, rounds->match, rounds->is_taken);

		if (taken < left / LEAST_SHARE)
		{
			match_rest(rounds, left - taken, count, free_columns);
			return;
		}
		left -= taken;
	}
}

/* The greedy matching of many points. */
static void
match_many(const double *from, int rows, const double *to, int columns, int dimension, int32 *match)
{
	int64		places = GK_GROUPS((int64) columns) * GK_GROUP;
	Rounds		rounds = {
		.from = from,.to = to,.rows = rows,.columns = columns,.dimension = dimension,
		.match = match,
		.is_taken = gk_allocate_zero(columns, sizeof(bool)),
		.pairs = gk_allocate((int64) rows * NEIGHBOURS, sizeof(GkMatchPair)),
		.packed = gk_allocate(places * dimension, sizeof(double)),
		.numbers = gk_allocate(columns, sizeof(int32)),
		.distances = gk_allocate(places, sizeof(double))
	};

	match_in_rounds(&rounds);
	pfree(rounds.is_taken);
	pfree(rounds.pairs);
	pfree(rounds.packed);
	pfree(rounds.numbers);
	pfree(rounds.distances);
}

/* All squared distances. */
static double *
all_distances(const double *from, int rows, const double *to, int columns, int dimension)
{
	double	   *costs = gk_allocate((int64) rows * columns, sizeof(double));

	for (int i = 0; i < rows; i++)
		for (int j = 0; j < columns; j++)
		{
			double		sum = 0.0;

			CHECK_FOR_INTERRUPTS();
			for (int f = 0; f < dimension; f++)
			{
				double		difference = from[(int64) i * dimension + f] -
					to[(int64) j * dimension + f];

				sum += difference * difference;
			}
			costs[(int64) i * columns + j] = sum;
		}
	return costs;
}

/* Matches points by their squared distance. */
void
gk_match_centroids(const double *from, int rows, const double *to, int columns, int dimension,
				   int32 *match)
{
	double	   *costs;

	if (rows > GK_EXACT_MATCHING || columns > GK_EXACT_MATCHING)
	{
		match_many(from, rows, to, columns, dimension, match);
		return;
	}
	costs = all_distances(from, rows, to, columns, dimension);
	gk_match_exactly(costs, rows, columns, match);
	pfree(costs);
}

/* What is cheapest for a row or column, its cost, and the next of its costs. */
typedef struct Choice
{
	int32		cheapest;
	double		cost;
	double		next;
} Choice;

/* Takes note of one more cost. */
static void
note_cost(Choice *choice, int32 number, double cost)
{
	if (cost < choice->cost)
	{
		choice->next = choice->cost;
		choice->cost = cost;
		choice->cheapest = number;
	}
	else if (cost < choice->next)
		choice->next = cost;
}

/* Allocates choices, of nothing yet. */
static Choice *
allocate_choices(int count)
{
	Choice	   *choices = gk_allocate(count, sizeof(Choice));

	for (int i = 0; i < count; i++)
		choices[i] = (Choice) {-1, HUGE_VAL, HUGE_VAL};
	return choices;
}

/* True if all else is more than twice as far, by squared distances. */
static bool
is_clear(const Choice *choice)
{
	return choice->cost < choice->next / 4.0;
}

/* Finds what is cheapest for each row and column, by the squared distances of points. */
static void
choose(const double *from, int rows, const double *to, int columns, int dimension,
	   Choice *of_rows, Choice *of_columns)
{
	int64		places = GK_GROUPS((int64) columns) * GK_GROUP;
	double	   *packed = gk_allocate(places * dimension, sizeof(double));
	double	   *distances = gk_allocate(places, sizeof(double));

	for (int j = 0; j < columns; j++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_pack_centroid(packed, dimension, j, to + (int64) j * dimension);
	}
	gk_pack_rest(packed, dimension, columns);
	for (int i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		gk_distances2(packed, from + (int64) i * dimension, dimension, columns, distances);
		for (int j = 0; j < columns; j++)
		{
			note_cost(&of_rows[i], j, distances[j]);
			note_cost(&of_columns[j], i, distances[j]);
		}
	}
	pfree(packed);
	pfree(distances);
}

/* Matches points that have hardly moved. */
void
gk_match_unmoved(const double *from, int rows, const double *to, int columns, int dimension,
				 int32 *match)
{
	Choice	   *of_rows = allocate_choices(rows);
	Choice	   *of_columns = allocate_choices(columns);

	choose(from, rows, to, columns, dimension, of_rows, of_columns);
	for (int i = 0; i < rows; i++)
	{
		int32		j = of_rows[i].cheapest;

		match[i] = j >= 0 && of_columns[j].cheapest == i && is_clear(&of_rows[i]) &&
			is_clear(&of_columns[j]) ? j : -1;
	}
	pfree(of_rows);
	pfree(of_columns);
}
