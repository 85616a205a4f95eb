// An object that must be refused: it wants a symbol of somebody else.
double cos(double);
double toy_cos(double x) { return cos(x); }
