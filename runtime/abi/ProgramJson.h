// A Program as JSON, one to one: what an artifact's manifest holds.
//
// Every struct is an object with the names of its members as keys, with these exceptions:
//   ScalarType        its name: "bf16"
//   SizeExpr          an array in postfix order: ["T", 8, "*", 3, "+"]; sizes are "T", "B", "Q",
//   "S",
//                     "R", operators "+", "*", "floordiv", "ceildiv", "mod"
//   SizeCondition     {"expr": [...], "relation": "ge" or "eq"}: expr >= 0 or expr == 0
//   layerKinds        an array of "sliding" and "global"
//   access            an array of "read", "write", "readwrite"
//   LaunchArgument    {"kind": "buffer", "offset", "bytes", "type", "shape", "stride", "extent"}
//                     {"kind": "weight", "index", "offset"}
//                     {"kind": "cache" or "table", "index", "lane", "offset"}
//                     {"kind": "input" or "output", "name", "offset"}; offset may be absent: 0
#pragma once

#include "runtime/abi/Program.h"
#include "runtime/support/Status.h"

#include <nlohmann/json.hpp>

#include <string>

namespace gemma {

nlohmann::json programToJson(const Program &program);

/// Reads and checks every value by itself: a missing key, another type, an unknown enumerator, a
/// negative size, an index outside its list or a malformed expression is an error that names the
/// key. Whether the parts fit together is checkProgram()'s to say (runtime/engine/ProgramCheck.h).
/// `where` starts each message.
Expected<Program> programFromJson(const nlohmann::json &json, const std::string &where);

/// The two spellings of a SizeExpr: as above, and as people write it, "ceildiv(T * 2, 16)".
nlohmann::json sizeExprToJson(const SizeExpr &expr);
std::string sizeExprToText(const SizeExpr &expr);

/// "read", "write", "readwrite".
const char *accessName(uint8_t access);

} // namespace gemma
