"""The screens: the main one, a folder for each large one beside it, and the bases and dialogs that they share.

The app opens them; they ask for other screens and actions by messages and never import the app.
"""
