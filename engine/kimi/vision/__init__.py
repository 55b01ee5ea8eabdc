"""Images: preprocessing, the vision tower, and the projector into the text model's hidden states."""
