"""Import: sends the messages of a file to a log, each exactly once, even if the import is interrupted and continued.

reading    the file's lines, with their positions and messages
progress   the progress of an import, saved in FILE.progress
topics     the requirements of a file's messages on their topics
importer   one run: chunk by chunk, each recorded before it is sent
"""
