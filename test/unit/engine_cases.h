/*
 * Random data sets, most of them difficult, for tests that compare engines.
 */
#ifndef ENGINE_CASES_H
#define ENGINE_CASES_H

#include "engine.h"

/* Kinds of rows. */
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
	COPIES,						/* fewer distinct rows than centroids */
	HEAVY_TAILED,				/* rows whose lengths differ by up to 2^20 */
	CROWDS,						/* clusters well apart, each with many centroids */
	NEAR_TIES,					/* rows within float rounding of the bisector of two centroids */
	SKEWED,						/* amounts: log-normal */
	INDICATORS,					/* columns of 0 and 1 */
	OUTLIERS,					/* one row in 200 far away */
	TOPICS,						/* overlapping clusters of very different size, decaying spectrum */
	HUB,						/* rows that are as far, or nearly, from many or all centroids */
	COUNTS,						/* whole numbers, those of the centroids too */
	LIMITS,						/* values and differences that are hard to compute with */
	KINDS
} Kind;

typedef struct Data
{
	int64_t		n;
	int			d;
	int64_t		k;
	Kind		kind;
	bool		weighted;
	bool		wide;
	bool		spherical;
	float	   *x;				/* n × d */
	double	   *w;				/* n */
	double	   *centroids;		/* k × d */
	int		   *exponents;		/* d + 1 */
	double	   *center;			/* d */
} Data;

/* How to pass a data set to an engine. */
typedef struct Feeding
{
	int			threads;
	int64_t		batch;			/* rows */
	int			slots;			/* batches of a lent buffer; 0 = none is lent */
	int			devices;		/* of an engine that has any, from number 0 on */
	uint64_t	device_memory_limit;
} Feeding;

/* An account of host memory that all engines share: see GkEngineConfig. */
extern bool account_draw(uint64_t bytes);
extern void account_return(uint64_t bytes);
extern void account_allow(uint64_t bytes);
extern uint64_t account_drawn(void);

/* Appends a batch repeatedly until there are this many rows, or an error. */
extern GkStatus append_until(GkEngine *engine, const GkBatch *batch, int64_t rows);

extern uint64_t random_bits(void);
extern void random_seed(uint64_t seed);
extern double random_unit(void);
extern Data make_data(Kind kind, int64_t n, int d, int64_t k, bool weighted, bool wide,
					  bool spherical);
extern void free_data(Data *data);

/* Multiplies rows and centroids by 2^exponent; what is too great becomes the greatest float. */
extern void scale_data(Data *data, int exponent);
extern void shuffle_rows(Data *data);
extern const char *kind_name(Kind kind);

/* An empty engine; ends the program on an error. */
extern GkEngine *open_engine(const GkEngineClass *class_of, bool weighted, Feeding feeding);

/* An engine with the data in it, sealed. */
extern GkEngine *feed(const GkEngineClass *class_of, const Data *data, Feeding feeding);

/* Sets the grid of the data, and its first centroids. */
extern void begin_fit(GkEngine *engine, const Data *data);

#endif							/* ENGINE_CASES_H */
