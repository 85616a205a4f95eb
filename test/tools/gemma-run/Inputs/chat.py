"""chat.py CHECKPOINT FOLDER MAX_CHUNK: three turns of gemma-run --chat on a model that knows thoughts,
each reply against --prompt with the whole conversation as the template renders it. The checkpoint's
tokenizer gets the two thought tokens in place of two unused ones; the copy goes to FOLDER."""

import json
import pathlib
import shutil
import subprocess
import sys

checkpoint, folder, chunk = sys.argv[1:]
shutil.rmtree(folder, ignore_errors=True)
shutil.copytree(checkpoint, folder)
file = pathlib.Path(folder, "tokenizer.json")
tokenizer = json.loads(file.read_text())
names = {"<unused0>": "<|channel>", "<unused1>": "<channel|>"}
for token in tokenizer["added_tokens"]:
    if token["content"] in names:
        token["content"] = names[token["content"]]
        token["special"] = True
vocab = tokenizer["model"]["vocab"]
for old, new in names.items():
    vocab[new] = vocab.pop(old)
file.write_text(json.dumps(tokenizer))

artifact = folder + ".gemma"
subprocess.run(
    ["gemma-compile", folder, "-o", artifact, "--quiet", "--isa", "baseline"]
    + ["--dtype", "f32", "--max-context", "160", "--max-chunk", chunk],
    check=True,
)


def run(*arguments, text=None):
    command = ["gemma-run", artifact, *arguments, "--greedy", "--max-tokens", "24"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}")
    return done


asked = ["In the beginning", "And the LORD said unto Moses", "Who is he?"]
history, expected = "<bos>", ""
for line in asked:
    history += f"<|turn>user\n{line}<turn|>\n<|turn>model\n"
    reply = run("--prompt", history + "<|channel>thought\n<channel|>", "--quiet").stdout
    expected += reply
    history += f"{reply.strip()}<turn|>\n"

got = run("--chat", text="\n".join(asked) + "\n")
if got.stdout != expected:
    sys.exit(f"--chat says\n{got.stdout!r}\nwhole conversations say\n{expected!r}")
if len(set(expected.splitlines())) < 2:
    sys.exit(f"every reply is the same, which tells nothing: {expected!r}")
print(got.stderr, end="")
