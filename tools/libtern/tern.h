/* libtern: ternary language models on every Vulkan GPU, for C and C++.
 *
 *   tern_model m; tern_session s; const char *piece;
 *   if (tern_open("model.gguf", NULL, &m) || tern_session_open(m, &s) || tern_prompt(s, "Hello!", NULL))
 *       fprintf(stderr, "%s\n", tern_error());
 *   while (tern_next(s, &piece, NULL, NULL) == TERN_OK)
 *       fputs(piece, stdout);
 *   tern_close(m);
 *
 * Results. Functions return TERN_OK (0), TERN_END (1), or a negative code; then
 * tern_error() has a sentence for people, of this thread's last failure. Models and
 * sessions are numbers: 0 is none, and one that was closed gives TERN_CLOSED.
 *
 * Threads. Any function may be called on any thread. A model may be used by several
 * threads at once; a session by one at a time, but for tern_cancel, which may come from
 * any thread at any time. Callbacks run on the thread of the call that was given them;
 * they may call tern_cancel and nothing else.
 *
 * Memory. Strings are UTF-8, ended by 0. What is handed in is copied before the call returns,
 * but for the data of tern_open_memory. What is handed out is the library's, and is valid
 * until the time that its function names.
 *
 * ABI. Structs begin with their size, set by the tern_..._init functions: they may
 * grow at their end, and functions may be added, without a change of TERN_ABI_VERSION.
 * The library holds a Go runtime: load it once, do not unload it, and do not fork a
 * process that has called it, but to exec.
 */
#ifndef TERN_H
#define TERN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TERN_ABI_VERSION 1

#if defined(_WIN32) && defined(TERN_BUILDING)
#define TERN_API __declspec(dllexport)
#elif defined(_WIN32)
#define TERN_API __declspec(dllimport)
#else
#define TERN_API
#endif

typedef uint64_t tern_model;
typedef uint64_t tern_session;

enum tern_code {
	TERN_OK = 0,
	TERN_END = 1,             /* the answer is complete */
	TERN_ERROR = -1,          /* what has no code of its own */
	TERN_ARGUMENT = -2,       /* an argument is out of range */
	TERN_NOT_FOUND = -3,      /* the file does not exist */
	TERN_FORMAT = -4,         /* the file is not a model, or a damaged one */
	TERN_UNSUPPORTED = -5,    /* by this library or this device */
	TERN_NO_DEVICE = -6,      /* no usable Vulkan device */
	TERN_OUT_OF_MEMORY = -7,  /* of the device */
	TERN_DEVICE_LOST = -8,    /* tern_reload opens it again */
	TERN_CONTEXT_FULL = -9,   /* the prompt does not fit the context, or no session is left */
	TERN_CANCELLED = -10,     /* by tern_cancel or a callback */
	TERN_CLOSED = -11,        /* the model or session was closed */
	TERN_UNLOADED = -12,      /* tern_reload loads it again */
	TERN_MISMATCH = -13,      /* the session was saved by another model */
	TERN_DAMAGED = -14        /* the saved session is damaged */
};

/* The ABI that the library has; differs from TERN_ABI_VERSION if it is another's. */
TERN_API int32_t tern_abi_version(void);
/* The library's version; valid for good. */
TERN_API const char *tern_version(void);
/* What went wrong in this thread's last failed call; valid until its next one. */
TERN_API const char *tern_error(void);

/* Told from time to time how much is done. A result other than 0 cancels the call. */
typedef int (*tern_progress)(void *user, uint64_t done, uint64_t total);

/* A Vulkan device of the program's, which it goes on to own, created for Vulkan 1.1 or
 * later. Handles are the Vk handles. What was enabled of the following makes Tern faster, and is named
 * in features: store16 (storageBuffer16BitAccess), store8 (storageBuffer8BitAccess), f16 (shaderFloat16),
 * int8 (shaderInt8), dot (shaderIntegerDotProduct), subgroup (subgroupSizeControl), coopmat
 * (VK_KHR_cooperative_matrix with vulkanMemoryModel and vulkanMemoryModelDeviceScope), resident
 * (bufferDeviceAddress). */
typedef struct tern_vulkan {
	size_t size;
	void *get_instance_proc_addr; /* of the program's loader; NULL: the system's */
	void *instance, *physical_device, *device, *queue;
	uint32_t queue_family;
	uint32_t api_version;  /* that the instance was created for; 0: 1.1 */
	const char *features;  /* a list with commas; NULL: none */
	void (*lock)(void *user), (*unlock)(void *user); /* around every use of the queue; NULL: nobody else uses it */
	void *user;
} tern_vulkan;

typedef struct tern_options {
	size_t size;
	const char *device;    /* "auto", "reference", or a number, name or UUID; NULL: auto */
	int32_t context;       /* positions of a session; 0: the model's, at most 4096; -1: the most that fit */
	int32_t sessions;      /* that can be full at once; 0: 1 */
	tern_progress progress; /* of loading, in bytes; may be NULL */
	void *user;
	const tern_vulkan *vulkan; /* instead of device; may be NULL */
} tern_options;

TERN_API void tern_options_init(tern_options *options);
TERN_API void tern_vulkan_init(tern_vulkan *vulkan);

/* Opens a GGUF file; NULL is the small model inside the library. options may be NULL. */
TERN_API int tern_open(const char *path, const tern_options *options, tern_model *model);
/* Opens a file that lies in memory, which stays as it is until tern_close. */
TERN_API int tern_open_memory(const void *data, size_t size, const tern_options *options, tern_model *model);
/* Closes the model, its sessions and its device. A call that runs meanwhile ends first, with
 * TERN_CANCELLED or TERN_CLOSED. */
TERN_API int tern_close(tern_model model);
/* Frees the device's memory and keeps the sessions, which go on after tern_reload. */
TERN_API int tern_unload(tern_model model);
/* Loads the model again, also on a device that was lost, but for one of the program's. */
TERN_API int tern_reload(tern_model model);
/* The device and its driver, or "reference", cut to size bytes with the 0. */
TERN_API int tern_device(tern_model model, char *name, size_t size);

typedef struct tern_memory {
	size_t size;
	int32_t context;       /* positions, as tern_open would take them */
	uint64_t weights, cache, scratch, total; /* bytes on the device */
} tern_memory;

/* What opening a file would take, before anything is loaded. */
TERN_API int tern_estimate(const char *path, const tern_options *options, tern_memory *memory);

TERN_API int tern_session_open(tern_model model, tern_session *session);
TERN_API int tern_session_close(tern_session session);
/* Saves the session with its conversation to a file, whole or not at all. */
TERN_API int tern_session_save(tern_session session, const char *path);
TERN_API int tern_session_restore(tern_model model, const char *path, tern_session *session);

typedef struct tern_sampling {
	size_t size;
	float temperature;     /* 0: the likeliest token */
	int32_t top_k;         /* 0: all */
	float top_p, min_p;
	float repeat_penalty;  /* 1: none */
	uint64_t seed;
	int32_t limit;         /* tokens of an answer; 0: as many as the context holds */
} tern_sampling;

/* What the model's file asks for. */
TERN_API int tern_sampling_init(tern_model model, tern_sampling *sampling);

/* Forgets the conversation and begins one with a system message; NULL: without. */
TERN_API int tern_system(tern_session session, const char *text);
/* Begins the answer to a user's message in the conversation. sampling may be NULL: what the file
 * asks for. An answer that was not read to its end stays in the conversation as far as it came. */
TERN_API int tern_prompt(tern_session session, const char *text, const tern_sampling *sampling);
/* Begins the continuation of a text, without a conversation. */
TERN_API int tern_complete(tern_session session, const char *text, const tern_sampling *sampling);

#define TERN_THOUGHT 1u /* the piece is what the model thinks, not its answer */

/* Waits for the next piece of the answer, whole characters: TERN_OK, or TERN_END after the
 * last one. It is valid until the session's next call; length and flags may be NULL. */
TERN_API int tern_next(tern_session session, const char **piece, size_t *length, uint32_t *flags);

/* Is handed each piece; a result other than 0 cancels the answer. */
typedef int (*tern_piece)(void *user, const char *piece, size_t length, uint32_t flags);
/* tern_prompt, and tern_next until the end. */
TERN_API int tern_ask(tern_session session, const char *text, const tern_sampling *sampling, tern_piece piece, void *user);

/* Ends the answer at the next border between submissions, also within a long prompt: the call that
 * waits for it returns TERN_CANCELLED. The session goes on with the next prompt. */
TERN_API int tern_cancel(tern_session session);

typedef struct tern_usage {
	size_t size;
	int32_t prompt, reused, generated; /* tokens */
	double first_seconds, rest_seconds; /* to the first token, and after it */
	int32_t full;          /* 1: the context's end ended the answer */
} tern_usage;

/* What the last answer took. */
TERN_API int tern_session_usage(tern_session session, tern_usage *usage);

#ifdef __cplusplus
}
#endif
#endif
