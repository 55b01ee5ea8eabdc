"""Run by an interpreter that has vLLM: SmolLM2's GGUF file as the folder that vLLM wants.

PYTHON tests/vllm_weights.py FILE.gguf FOLDER
"""

import sys
from pathlib import Path


def main(source: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, name = str(source.parent), source.name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.bfloat16)
    # The weights are dequantised now; what still says otherwise would be believed.
    for owner in (model, model.config):
        for mark in ("quantization_config", "hf_quantizer", "is_quantized", "quantization_method"):
            if hasattr(owner, mark):
                try:
                    delattr(owner, mark)
                except AttributeError:
                    setattr(owner, mark, None)
    made = target.with_name(f"{target.name}.part")
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    made.rename(target)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
