// Two models, each asked in a thread of its own, with callbacks and errors as exceptions.
#include <tern.h>

#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

static void check(int code) {
	if (code < 0)
		throw std::runtime_error(tern_error());
}

// Model closes itself.
class Model {
public:
	explicit Model(const char *path = nullptr) { check(tern_open(path, nullptr, &handle)); }
	~Model() { tern_close(handle); }
	Model(const Model &) = delete;
	Model &operator=(const Model &) = delete;

	std::string ask(const std::string &question) {
		tern_session session;
		check(tern_session_open(handle, &session));
		std::string answer;
		int code = tern_ask(session, question.c_str(), nullptr, append, &answer);
		tern_session_close(session); // does not change this thread's error when it succeeds
		check(code);
		return answer;
	}

private:
	static int append(void *user, const char *piece, size_t length, uint32_t flags) {
		if (!(flags & TERN_THOUGHT))
			static_cast<std::string *>(user)->append(piece, length);
		return 0;
	}
	tern_model handle = 0;
};

int main(int argc, char **argv) {
	try {
		Model first, second(argc > 1 && argv[1][0] ? argv[1] : nullptr);
		std::string answers[2];
		std::thread other([&] { answers[1] = second.ask("What is the capital of Spain?"); });
		answers[0] = first.ask("What is the capital of France?");
		other.join();
		std::cout << answers[0] << '\n' << answers[1] << '\n';
	} catch (const std::exception &e) {
		std::cerr << e.what() << '\n';
		return 1;
	}
}
