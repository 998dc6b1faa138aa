/* Uses every function of libtern, right and wrong: what ctest runs, also under valgrind.
 *
 *   check FOLDER MODEL      a folder to write to, and a model file
 */
#include <tern.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(x) \
	do { \
		if (!(x)) { \
			fprintf(stderr, "%s:%d: %s is false; the last error is \"%s\"\n", __FILE__, __LINE__, #x, tern_error()); \
			exit(1); \
		} \
	} while (0)

/* text of an answer that grows */
struct text {
	char bytes[4096];
	size_t length;
	int pieces, stop_after; /* 0: never */
	tern_session cancel;    /* instead of stopping by the result */
};

static int put(void *user, const char *piece, size_t length, uint32_t flags) {
	struct text *t = user;
	(void)flags;
	WANT(t->length + length < sizeof t->bytes && strlen(piece) == length);
	memcpy(t->bytes + t->length, piece, length + 1);
	t->length += length;
	if (++t->pieces != t->stop_after)
		return 0;
	if (t->cancel == 0)
		return 1;
	WANT(tern_cancel(t->cancel) == TERN_OK);
	return 0;
}

static int loads;

static int progress(void *user, uint64_t done, uint64_t total) {
	WANT(done <= total);
	loads++;
	return user != NULL;
}

static const char *ask(tern_session s, const char *question, struct text *t) {
	memset(t, 0, sizeof *t);
	WANT(tern_ask(s, question, NULL, put, t) == TERN_OK);
	return t->bytes;
}

/* a model in memory */
static void memory_model(const char *path) {
	static char data[16 << 20];
	tern_model m;
	tern_session s;
	struct text t;
	FILE *f = fopen(path, "rb");
	size_t n;
	WANT(f);
	n = fread(data, 1, sizeof data, f);
	fclose(f);
	WANT(tern_open_memory(data, n, NULL, &m) == TERN_OK && tern_session_open(m, &s) == TERN_OK);
	WANT(!strcmp(ask(s, "What is the capital of France?", &t), "The capital of France is Paris."));
	WANT(tern_close(m) == TERN_OK);
	WANT(tern_open_memory(data, n / 2, NULL, &m) == TERN_FORMAT && m == 0);
}

static void arguments(tern_model m, tern_session s) {
	tern_model none = 99;
	tern_session nobody = 99;
	tern_options o;
	tern_vulkan v;
	tern_sampling sampling;
	tern_usage u = {0};
	char small[4];
	WANT(tern_open("no such file.gguf", NULL, &none) == TERN_NOT_FOUND && none == 0 && strstr(tern_error(), "no such file"));
	WANT(tern_open(NULL, NULL, NULL) == TERN_ARGUMENT);
	WANT(tern_open_memory("GGUF but no more", 16, NULL, &none) == TERN_FORMAT);
	WANT(tern_open_memory(NULL, 16, NULL, &none) == TERN_ARGUMENT);
	memset(&o, 0, sizeof o);
	WANT(tern_open(NULL, &o, &none) == TERN_ARGUMENT && strstr(tern_error(), "tern_options_init"));
	tern_options_init(&o);
	o.context = -2;
	WANT(tern_open(NULL, &o, &none) == TERN_ARGUMENT);
	tern_options_init(&o);
	o.device = "no such card";
	WANT(tern_open(NULL, &o, &none) == TERN_NO_DEVICE);
	tern_vulkan_init(&v);
	tern_options_init(&o);
	o.vulkan = &v;
	WANT(tern_open(NULL, &o, &none) == TERN_ERROR && strstr(tern_error(), "needs instance"));
	v.features = "warp";
	WANT(tern_open(NULL, &o, &none) == TERN_ARGUMENT && strstr(tern_error(), "warp"));
	v.size = 1;
	WANT(tern_open(NULL, &o, &none) == TERN_ARGUMENT);
	WANT(tern_session_open(0, &nobody) == TERN_ARGUMENT && tern_session_open(m + 1000, &nobody) == TERN_ARGUMENT);
	WANT(tern_session_open(m, NULL) == TERN_ARGUMENT);
	WANT(tern_prompt(s, NULL, NULL) == TERN_ARGUMENT && tern_next(s, NULL, NULL, NULL) == TERN_ARGUMENT);
	WANT(tern_sampling_init(m, &sampling) == TERN_OK);
	sampling.temperature = -1;
	WANT(tern_prompt(s, "Hello!", &sampling) == TERN_ARGUMENT && strstr(tern_error(), "temperature"));
	WANT(tern_session_usage(s, &u) == TERN_ARGUMENT);
	WANT(tern_device(m, small, sizeof small) == TERN_OK && strlen(small) == 3);
	WANT(tern_session_save(s, "/no such folder/session") == TERN_NOT_FOUND);
	tern_options_init(NULL);
	tern_vulkan_init(NULL);
}

int main(int argc, char **argv) {
	tern_model m;
	tern_session s, again;
	tern_options o;
	tern_sampling sampling;
	tern_memory memory = {0};
	tern_usage usage = {0};
	struct text t;
	const char *piece;
	char path[4096];
	int code, pieces = 0;

	WANT(argc == 3);
	memory_model(argv[2]);
	WANT(tern_abi_version() == TERN_ABI_VERSION && tern_version()[0]);
	tern_options_init(&o);
	o.context = 512;
	o.sessions = 2;
	o.progress = progress;
	o.user = &o;
	WANT(tern_open(NULL, &o, &m) == TERN_CANCELLED && m == 0 && loads == 1);
	o.user = NULL;
	WANT(tern_open(NULL, &o, &m) == TERN_OK && loads > 1);
	loads = 0;
	WANT(tern_session_open(m, &s) == TERN_OK);
	WANT(tern_next(s, &piece, NULL, NULL) == TERN_ARGUMENT);
	arguments(m, s);

	/* answers, in one call and piece by piece */
	WANT(!strcmp(ask(s, "What is the capital of France?", &t), "The capital of France is Paris."));
	usage.size = sizeof usage;
	WANT(tern_session_usage(s, &usage) == TERN_OK && usage.generated > 3 && usage.prompt > usage.generated && !usage.full);
	WANT(tern_prompt(s, "What is the capital of Spain?", NULL) == TERN_OK);
	while ((code = tern_next(s, &piece, NULL, NULL)) == TERN_OK)
		pieces++;
	WANT(code == TERN_END && pieces > 3 && !piece[0]);
	WANT(tern_next(s, &piece, NULL, NULL) == TERN_END);
	WANT(tern_sampling_init(m, &sampling) == TERN_OK);
	sampling.limit = 2;
	WANT(tern_complete(s, "The capital of France", &sampling) == TERN_OK);
	WANT(tern_next(s, &piece, NULL, NULL) == TERN_OK && !strcmp(piece, " is"));

	/* cancelling, by result and by call, and abandoning an answer */
	WANT(tern_system(s, NULL) == TERN_OK);
	memset(&t, 0, sizeof t);
	t.stop_after = 2;
	WANT(tern_ask(s, "What is the capital of Italy?", NULL, put, &t) == TERN_CANCELLED && t.pieces == 2);
	memset(&t, 0, sizeof t);
	t.stop_after = 2;
	t.cancel = s;
	WANT(tern_ask(s, "What is the capital of Italy?", NULL, put, &t) == TERN_CANCELLED && t.pieces < 5);
	WANT(tern_prompt(s, "What is the capital of Italy?", NULL) == TERN_OK);
	WANT(tern_next(s, &piece, NULL, NULL) == TERN_OK);

	/* saving, restoring, unloading */
	WANT(tern_system(s, NULL) == TERN_OK);
	ask(s, "My name is Vera.", &t);
	snprintf(path, sizeof path, "%s/session.tern", argv[1]);
	WANT(tern_session_save(s, path) == TERN_OK);
	WANT(tern_session_restore(m, path, &again) == TERN_OK);
	WANT(strstr(ask(again, "What is my name?", &t), "Vera"));
	WANT(tern_unload(m) == TERN_OK);
	WANT(tern_ask(s, "What is my name?", NULL, NULL, NULL) == TERN_UNLOADED);
	WANT(tern_reload(m) == TERN_OK && loads == 0);
	WANT(strstr(ask(s, "What is my name?", &t), "Vera"));
	WANT(tern_session_close(again) == TERN_OK && tern_session_close(again) == TERN_CLOSED);
	WANT(tern_session_restore(m, "/dev/null", &again) == TERN_DAMAGED);

	/* memory */
	memory.size = sizeof memory;
	o.progress = NULL;
	WANT(tern_estimate(NULL, &o, &memory) == TERN_OK && memory.context == 512 && memory.total > memory.weights);
	o.context = -1;
	WANT(tern_estimate(NULL, &o, &memory) == TERN_OK && memory.context == 2048);
	WANT(tern_estimate("no such file", NULL, &memory) == TERN_NOT_FOUND);

	WANT(tern_prompt(s, "What is the capital of France?", NULL) == TERN_OK); /* and close in the middle */
	WANT(tern_close(m) == TERN_OK && tern_close(m) == TERN_CLOSED);
	WANT(tern_next(s, &piece, NULL, NULL) == TERN_CLOSED && tern_cancel(s) == TERN_CLOSED);
	puts("ok");
	return 0;
}
