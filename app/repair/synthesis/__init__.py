"""Small expressions built from values seen at run time, where no edit of a family fits."""
