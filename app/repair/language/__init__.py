"""The tiny local language model as a judge of candidate edits: it orders, it decides nothing."""
