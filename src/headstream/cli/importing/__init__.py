"""Import: sends each message of a file to a log exactly once, even if the import is interrupted and continued.

reading    the lines of the file, with their positions and messages
progress   the progress of an import, saved in FILE.progress
topics     the topics that the messages of a file require
importer   one run; the progress is saved before each chunk is sent
"""
