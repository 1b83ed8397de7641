"""The screens beside the main one: details, processes, help and the dialogs."""
