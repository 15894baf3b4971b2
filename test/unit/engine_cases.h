/*
 * Random data sets and the commands of a whole fit, for tests that compare engines.
 */
#ifndef ENGINE_CASES_H
#define ENGINE_CASES_H

#include "engine.h"

/* What the rows look like. */
typedef enum Kind
{
	NORMAL,						/* independent normal values */
	BLOBS,						/* clusters well apart */
	LATTICE,					/* small integers: ties and duplicates everywhere */
	EQUAL,						/* all rows the same */
	FAR_AWAY,					/* σ 1 around 1e6 */
	UNEVEN,						/* one feature × 1e9 */
	LOPSIDED,					/* 99 % of the rows in one spot */
	TINY,						/* denormal values */
	HUGE_VALUES,				/* values of which the square is no float */
	KINDS
} Kind;

typedef struct Data
{
	int64_t		n;
	int			d;
	int64_t		k;
	bool		weighted;
	bool		wide;
	bool		spherical;
	float	   *x;				/* n × d */
	double	   *w;				/* n */
	double	   *centroids;		/* k × d */
	int		   *exponents;		/* d + 1 */
	double	   *center;			/* d */
	int			rest_bits;
} Data;

/* How a data set goes into an engine. */
typedef struct Feeding
{
	int			threads;
	int64_t		batch;
} Feeding;

extern uint64_t random_bits(void);
extern void random_seed(uint64_t seed);
extern double random_unit(void);
extern Data make_data(Kind kind, int64_t n, int d, int64_t k, bool weighted, bool wide,
					  bool spherical);
extern void free_data(Data *data);
extern void shuffle_rows(Data *data);

/* Opens an engine with the data in it, sealed; ends the program on an error. */
extern GkEngine *feed(const GkEngineClass *class_of, const Data *data, Feeding feeding);
extern void run(GkEngine *engine, GkCommand *command);

#endif							/* ENGINE_CASES_H */
