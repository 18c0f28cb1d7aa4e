"""The pipeline as a job of spark-submit: its arguments are those of `headstream replicate run`.

    spark-submit --master yarn --conf spark.driver.memory=4g replicate_job.py --config replicate.toml

Settings given to spark-submit and in spark-defaults.conf are used; those of [spark] in the file override them.
"""

import sys

from headstream.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["replicate", "run"]
    main()
