/* Asks the small model inside the library, or that of a file, a question.
 *
 *   hello [MODEL.gguf [QUESTION]]
 */
#include <stdio.h>
#include <tern.h>

static int failed(const char *what) {
	fprintf(stderr, "%s: %s\n", what, tern_error());
	return 1;
}

int main(int argc, char **argv) {
	const char *path = argc > 1 && argv[1][0] ? argv[1] : NULL;
	const char *question = argc > 2 ? argv[2] : "What is the capital of France?";
	tern_model model;
	tern_session session;
	const char *piece;
	int code;

	if (tern_abi_version() != TERN_ABI_VERSION) {
		fprintf(stderr, "the library has another ABI\n");
		return 1;
	}
	if (tern_open(path, NULL, &model))
		return failed("open");
	if (tern_session_open(model, &session))
		return failed("session");
	if (tern_prompt(session, question, NULL))
		return failed("prompt");
	while ((code = tern_next(session, &piece, NULL, NULL)) == TERN_OK) {
		fputs(piece, stdout);
		fflush(stdout);
	}
	putchar('\n');
	if (code != TERN_END)
		return failed("answer");
	return tern_close(model) ? failed("close") : 0;
}
