#ifndef TERN_BRIDGE_H
#define TERN_BRIDGE_H

#define TERN_BUILDING
#include "tern.h"

/* Go spells pointers to these, so that its functions have the header's types. */
typedef const char tern_string;
typedef const void tern_bytes;
typedef const tern_options tern_options_in;
typedef const tern_sampling tern_sampling_in;

/* Go calls C function pointers, and keeps a text for each thread, through these. */
void tern_set_error(const char *text);
int tern_call_progress(tern_progress f, void *user, uint64_t done, uint64_t total);
int tern_call_piece(tern_piece f, void *user, const char *piece, size_t length, uint32_t flags);
void tern_call_lock(void (*f)(void *), void *user);

#endif
