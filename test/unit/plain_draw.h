/*
 * A draw of rows (GK_DRAW) by the other commands of an engine.
 */
#ifndef PLAIN_DRAW_H
#define PLAIN_DRAW_H

#include "engine.h"

/* An engine with `rows` of `d` features, and how it runs a command to its end. */
typedef struct PlainDrawer
{
	void	   *engine;
	void		(*run) (void *engine, GkCommand *command);
	int64_t		rows;
	int			d;
} PlainDrawer;

/* Carries out the command, which is a draw. */
extern void plain_draw(const PlainDrawer *drawer, GkCommand *command);

#endif							/* PLAIN_DRAW_H */
