"""The pipeline as a job for spark-submit, with the arguments of `headstream replicate run`.

    spark-submit --master yarn --conf spark.driver.memory=4g replicate_job.py --config replicate.toml

Settings of spark-submit and spark-defaults.conf are used; settings in the file's section [spark] override them.
"""

import sys

from headstream.cli.main import main

if __name__ == "__main__":
    sys.argv[1:1] = ["replicate", "run"]
    main()
