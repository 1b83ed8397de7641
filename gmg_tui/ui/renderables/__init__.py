"""Pure drawing: from the model's types to rows of cells, without an app."""
