// The one source of the target that carries the precompiled header (see cmake/GemmaPCH.h).
