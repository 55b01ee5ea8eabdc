"""Models in GGUF files, run by llama.cpp in a process of its own."""
