// An object that must be refused: it has code that runs when it is loaded.
static volatile int state;
__attribute__((constructor)) static void start(void) { state = 1; }
int toy_state(void) { return state; }
