#include "bridge.h"

#include <string.h>

/* An error's text lies with its thread, so that it needs no freeing. */
static _Thread_local char error[1024];

void tern_set_error(const char *text) {
	size_t n = strlen(text);
	if (n >= sizeof error) {
		n = sizeof error - 1;
		while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) /* not within a character */
			n--;
	}
	memcpy(error, text, n);
	error[n] = 0;
}

const char *tern_error(void) { return error; }

int32_t tern_abi_version(void) { return TERN_ABI_VERSION; }

void tern_options_init(tern_options *options) {
	if (options == NULL)
		return;
	memset(options, 0, sizeof *options);
	options->size = sizeof *options;
}

void tern_vulkan_init(tern_vulkan *vulkan) {
	if (vulkan == NULL)
		return;
	memset(vulkan, 0, sizeof *vulkan);
	vulkan->size = sizeof *vulkan;
}

int tern_call_progress(tern_progress f, void *user, uint64_t done, uint64_t total) { return f(user, done, total); }

int tern_call_piece(tern_piece f, void *user, const char *piece, size_t length, uint32_t flags) {
	return f(user, piece, length, flags);
}

void tern_call_lock(void (*f)(void *), void *user) { f(user); }
