// A kernel's source for a processor, and its entry by the addresses of its parameters.
#include SOURCE
#include "emulate.h"

#define UNTRACED __attribute__((no_sanitize("coverage"))) // parameters lie nowhere on a device

template <int... i> struct Numbers {};
template <class T, T... i> using Sequence = Numbers<i...>;

template <class... T, int... i> UNTRACED static void call(void (*f)(T...), void **params, Numbers<i...>) { f(*(T *)params[i]...); }
template <class... T> UNTRACED static void call(void (*f)(T...), void **params) { call(f, params, __make_integer_seq<Sequence, int, sizeof...(T)>()); }

extern "C" UNTRACED void emulated_kernel(void **params) { call(kernel, params); }
