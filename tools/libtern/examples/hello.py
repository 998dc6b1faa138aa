"""Asks the small model inside libtern a question: hello.py LIBRARY [MODEL.gguf]"""
import ctypes, sys

tern = ctypes.CDLL(sys.argv[1])
tern.tern_error.restype = ctypes.c_char_p

def check(code):
    if code < 0:
        sys.exit(tern.tern_error().decode())
    return code

model, session, piece = ctypes.c_uint64(), ctypes.c_uint64(), ctypes.c_char_p()
path = sys.argv[2].encode() if len(sys.argv) > 2 else None
check(tern.tern_open(path, None, ctypes.byref(model)))
check(tern.tern_session_open(model, ctypes.byref(session)))
check(tern.tern_prompt(session, "What is the capital of France?".encode(), None))
while check(tern.tern_next(session, ctypes.byref(piece), None, None)) == 0:
    print(piece.value.decode(), end="", flush=True)
print()
check(tern.tern_close(model))
