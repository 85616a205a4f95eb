// An object with nothing wrong; linked against a library it must be refused.
int toy_answer(void) { return 42; }
