// Umbrella: every op of the gemma dialect, by family.
#ifndef GEMMA_OPS_TD
#define GEMMA_OPS_TD

include "dialect/gemma/EmbeddingOps.td"
include "dialect/gemma/NormOps.td"
include "dialect/gemma/PositionOps.td"
include "dialect/gemma/AttentionOps.td"
include "dialect/gemma/FeedForwardOps.td"
include "dialect/gemma/CacheOps.td"
include "dialect/gemma/GroupOps.td"

#endif // GEMMA_OPS_TD
