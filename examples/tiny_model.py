"""``python tiny_model.py FOLDER [LAYERS]``: a model with random weights, a tokenizer and a chat template, in 2 MB.

It speaks nonsense, but everything of vLLM works with it. Run by a Python that has torch and transformers.
"""

import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CORPUS = ("Write a haiku about spring, summer, autumn or winter.", "Old pond: a frog leaps in, the sound of water.")
SPECIAL = ("<pad>", "<s>", "</s>")
TEMPLATE = """{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}
{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"""
CONTEXT = 2048


def tokenizer() -> PreTrainedTokenizerFast:
    """Byte-pair tokens that cover every byte."""
    pairs = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pairs.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=384, initial_alphabet=alphabet, special_tokens=list(SPECIAL))
    pairs.train_from_iterator(CORPUS, trainer)
    pad, begin, end = SPECIAL
    made = PreTrainedTokenizerFast(
        tokenizer_object=pairs, pad_token=pad, bos_token=begin, eos_token=end, model_max_length=CONTEXT
    )
    made.chat_template = TEMPLATE
    return made


def model(words: int, layers: int) -> LlamaForCausalLM:
    """A small Llama; the same weights at every call."""
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    return LlamaForCausalLM(config).float()


def main(folder: str, layers: int = 2) -> None:
    """Write both to the folder."""
    tokens = tokenizer()
    tokens.save_pretrained(folder)
    model(tokens.vocab_size, layers).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
