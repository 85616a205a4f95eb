"""A config.json with one sliding and one global layer only: two_layers.py IN OUT."""

import json
import sys

with open(sys.argv[1]) as file:
    config = json.load(file)
text = config.get("text_config", config)
text["num_hidden_layers"] = 2
text["layer_types"] = ["sliding_attention", "full_attention"]
with open(sys.argv[2], "w") as file:
    json.dump(config, file)
