"""What the model is shown of a run: token accounting, the view of the history, compaction, pre-loading."""
