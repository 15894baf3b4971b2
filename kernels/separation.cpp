/*
 * GK_SEPARATION: distances to the points of the own group and of the nearest other one.
 */
#include "cuda_engine.h"

namespace gk
{

/* A shard's part of the command, in its scratch memory. */
struct SeparationPart
{
	Shard	   *shard;
	Separation	separation;
	int64_t		first = 0;			/* its first row: the shard's, or the caller's */
	int64_t		rows = 0;
	float	   *features = nullptr; /* only of the caller */
	int32_t    *labels = nullptr;
	double	   *own = nullptr;
	double	   *other = nullptr;

	void		reserve(const GkCommand *c);
	void		send_labels(const int32_t *from, int64_t at, int64_t count)
	{
		to_device(*shard, labels + at, from, count);
	}
	void		compare(const float *x, int64_t at, int64_t count)
	{
		separation_slice(*shard, x, count, separation, labels + at, own + at, other + at);
	}
	void		bring(double *to_own, double *to_other, int64_t at, int64_t count)
	{
		to_host(*shard, to_own, own + at, count);
		if (to_other != nullptr)
			to_host(*shard, to_other, other + at, count);
	}
};

/* Makes room, and brings the points there. */
void
SeparationPart::reserve(const GkCommand *c)
{
	Scratch		plan;
	int			d = shard->dimension;
	double	   *points = nullptr;
	int64_t    *ends = nullptr;

	for (int pass = 0; pass < 2; pass++)
	{
		plan.used = 0;
		points = plan.take<double>(separation.points * d);
		ends = plan.take<int64_t>(separation.groups);
		features = plan.take<float>(c->separation.features != nullptr ? rows * d : 0);
		labels = plan.take<int32_t>(rows);
		own = plan.take<double>(rows);
		other = plan.take<double>(rows);
		shard->scratch.reserve(*shard, plan.used);
		plan.base = shard->scratch.get();
	}
	to_device(*shard, points, c->separation.points, separation.points * d);
	to_device(*shard, ends, c->separation.ends, separation.groups);
	separation.at = points;
	separation.ends = ends;
}

/* Where the distances to the other groups go; null if they are not wanted. */
static double *
others_of(const GkCommand *c, int64_t row)
{
	return c->separation.other == nullptr ? nullptr : c->separation.other + row;
}

/* Compares rows of the caller, an equal share of them on each device. */
static void
compare_given(const GkCommand *c, std::vector<SeparationPart> &parts)
{
	int64_t		share = (int64_t) parts.size();

	for (int64_t i = 0; i < share; i++)
	{
		SeparationPart &part = parts[i];

		part.first = c->separation.count * i / share;
		part.rows = c->separation.count * (i + 1) / share - part.first;
		if (part.rows == 0)
			continue;
		part.reserve(c);
		to_device(*part.shard, part.features,
				  c->separation.features + part.first * part.shard->dimension,
				  part.rows * part.shard->dimension);
		part.send_labels(c->separation.labels + part.first, 0, part.rows);
		part.compare(part.features, 0, part.rows);
	}
	for (SeparationPart &part : parts)
		if (part.rows > 0)
			part.bring(c->separation.own + part.first, others_of(c, part.first), 0, part.rows);
}

/* Compares rows of the engine where they lie. */
void
Engine::compare_own(const GkCommand *c, std::vector<SeparationPart> &parts)
{
	int64_t		first = c->separation.first;
	int64_t		count = c->separation.count;

	for (size_t i = 0; i < parts.size(); i++)
	{
		parts[i].first = local_end((int) i, first);
		parts[i].rows = local_end((int) i, first + count) - parts[i].first;
		if (parts[i].rows > 0)
			parts[i].reserve(c);
	}
	for_ranges(first, count, [&](int i, int64_t local, int64_t at, int64_t part)
	{
		parts[i].send_labels(c->separation.labels + at, local - parts[i].first, part);
	});
	walk("separation", first, first + count, plain_rows(dimension * 4.0), false,
		 [&](Shard &shard, const Slice &slice)
	{
		for (SeparationPart &part : parts)
			if (part.shard == &shard)
				part.compare(slice.features, slice.first - part.first, slice.rows);
	});
	for_ranges(first, count, [&](int i, int64_t local, int64_t at, int64_t part)
	{
		parts[i].bring(c->separation.own + at, others_of(c, at), local - parts[i].first, part);
	});
}

/* GK_SEPARATION: the distances of rows to their own group of points, and to the nearest other. */
void
Engine::separate(GkCommand *c)
{
	std::vector<SeparationPart> parts(shards.size());

	for (size_t i = 0; i < shards.size(); i++)
	{
		Separation &separation = parts[i].separation;

		parts[i].shard = shards[i].get();
		separation.groups = c->separation.groups;
		separation.points = c->separation.ends[separation.groups - 1];
		separation.single = separation.points == separation.groups;
		separation.cosine = c->separation.cosine;
	}
	if (c->separation.features != nullptr)
		compare_given(c, parts);
	else
		compare_own(c, parts);
}

}								/* namespace gk */
