"""What a user has set in `config.toml`: defaults of options, keys, the theme, and patterns of scripts.

`place` knows where the file is, `source` parses it and knows its lines, `reading` judges it, `example` writes one. What may stand in it is
handed to them (`known`): this room knows neither the commands, nor the screen, nor the engine.
"""
