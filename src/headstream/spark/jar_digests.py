"""The SHA-256 digests of the jars: what was tried with this version, and nothing else, gets into a JVM.

The broker's jars are here with all that they depend on. A new version of a jar needs its line here: fetch it, compare its
digest with the one that its publisher gives, and write it down.
"""

from __future__ import annotations

from typing import Final

__all__ = ["JAR_DIGESTS"]

JAR_DIGESTS: Final[dict[str, str]] = {
    "HdrHistogram-2.2.2.jar": "22d1d4316c4ec13a68b559e98c8256d69071593731da96136640f864fa14fad8",
    "argparse4j-0.7.0.jar": "65ceb669d88f63306c680f8088bbf765bbca72d288a61a03703000076c3d3f56",
    "caffeine-3.2.0.jar": "ec411dfdf0c03f25218648ce89861630b71680e5858a9a7278ebac8e55cab3d7",
    "commons-beanutils-1.11.0.jar": "9e44ba68ec9a3f21286fa2a8bbb003b735c0f69101bb43144b79f4f8aaa74709",
    "commons-collections-3.2.2.jar": "eeeae917917144a68a741d4c0dff66aa5c5c5fd85593ff217bced3fc8ca783b8",
    "commons-digester-2.1.jar": "e0b2b980a84fc6533c5ce291f1917b32c507f62bcad64198fff44368c2196a3d",
    "commons-logging-1.3.5.jar": "6d7a744e4027649fbb50895df9497d109f98c766a637062fe8d2eabbb3140ba4",
    "commons-pool2-2.13.1.jar": "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
    "commons-validator-1.10.1.jar": "ed74711a78d793ca37f6075e4a1e93d107233dfd20d0bb17e32bad88d38e56aa",
    "delta-spark_4.2_2.13-4.4.0.jar": "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
    "delta-storage-4.4.0.jar": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "hash4j-0.22.0.jar": "23028a3fd006e530bf495f551083208187cafd8f80624d048eba56442f16a50e",
    "jackson-annotations-2.19.2.jar": "e516743a316dcf83c572ffc9cb6e8c5e8c134880c8c5155b02f7b34e9c5dc3cf",
    "jackson-core-2.19.2.jar": "aa77eaf29293a868c47372194f7c5287d77d9370b04ea25d3fffc1e4904b5880",
    "jackson-databind-2.19.2.jar": "0a1bd4e9b0d670e632d40ee8c625ad376233502f03c2f5889baea95d025b47a7",
    "jackson-dataformat-csv-2.19.2.jar": "00a733ae8d1eadefefbef22dd2a2565b665e687864a11db3fad3487bb9448905",
    "jackson-dataformat-yaml-2.19.2.jar": "80a213e7d998244922ab7bcf0938ea03eb7868e88e2d05a8407c6228c885a37e",
    "jackson-datatype-jdk8-2.19.2.jar": "6055fef10756e8bd1b0e8807aa1d881338c63ca95d59271e1da4922b9a17581e",
    "jopt-simple-5.0.4.jar": "df26cc58f235f477db07f753ba5a3ab243ebe5789d9f89ecf68dd62ea9a66c28",
    "jose4j-0.9.6.jar": "7314af50cde9c99e8eaf43eee617a23edcc6bb43036221064355094999d837ef",
    "jspecify-1.0.0.jar": "1fad6e6be7557781e4d33729d49ae1cdc8fdda6fe477bb0cc68ce351eafdfbab",
    "kafka-clients-3.9.2.jar": "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
    "kafka-clients-4.2.0.jar": "bcf39f152c5553c2501a491fc4a73c5b0330741e8eed96a481323b8ee89738af",
    "kafka-coordinator-common-4.2.0.jar": "75c9ce733dd11759ef19f05d21af6397bacbf86dde83551ba46ecde51da1674d",
    "kafka-group-coordinator-4.2.0.jar": "6038093c1823c622a71825297aa03881d66b7df15213cb3a5e930cc36c32d1fb",
    "kafka-group-coordinator-api-4.2.0.jar": "7d3329e5696d48d84ebd0f7f25c4b27c14e397eb013d8a6113ce38d8e043c2aa",
    "kafka-metadata-4.2.0.jar": "55fd69178bd1679ae484226e76d78556445e8d8668c03b511f351cf154bec845",
    "kafka-raft-4.2.0.jar": "206c9580c4a9dde784e36508cdb1b020debb5a49b465712958e05cd6cc4da256",
    "kafka-server-4.2.0.jar": "907c4c0ec05b99d311ab945be9747d5ac6f1697702529a8be55022126ca3742e",
    "kafka-server-common-4.2.0.jar": "e99890e8e09784e4d84f9295db4012c73cde6c2cddba0a4e104cb102e18e4aa0",
    "kafka-share-coordinator-4.2.0.jar": "0f5f3e3561c8102a4f45399d028a36e70e7947cb1393cd98394e22ed7618852e",
    "kafka-storage-4.2.0.jar": "46316f7e8b3be51d83e0f2be63f6f4e61d7f19df1379fd0efe74c14c10582082",
    "kafka-storage-api-4.2.0.jar": "188cf7523cf3684913c645007b8e442b3934badfbf9082a3a0572172cc9f1214",
    "kafka-tools-api-4.2.0.jar": "0b0b73e897dfe87c2505695d72cacc5239aa15e9c8302ac918dc0705c30e70e9",
    "kafka-transaction-coordinator-4.2.0.jar": "1f337382004c3f0213845af939564aeb87f5973d0cce42b912e2d5b8dcf80b69",
    "kafka_2.13-4.2.0.jar": "0490bc0a8675f9217c52b788c8a586f692ad5ae34a50a3ed370d2533b01bdbcb",
    "log4j-api-2.25.3.jar": "e886682920fa0fb9d6eb6395dcb4de088443f8646c89c5e5846e168e327f406f",
    "log4j-core-2.25.3.jar": "362b7fcb65b73aa46cc4bc53abf4eb216f444a83b5d1a037cb6fdfff0ae9f0f9",
    "log4j-slf4j-impl-2.25.3.jar": "f835ac2bf1a895d5e687b4ebf238bff05316dd672e572dff235024b6e320bcc9",
    "lz4-java-1.10.1.jar": "a58a84c4271e50df4c96ed916ccb7e48a869f8ed9cdcda1ad5d3d4c33b0214a3",
    "metrics-core-2.2.0.jar": "6b7a14a6f34c10f8683f7b5e2f39df0f07b58c7dff0e468ebbc713905c46979c",
    "pcollections-4.0.2.jar": "2bbeef5797a241300c4f7513cd546239629ed7deda4fc0c31df90bb95f5f13ef",
    "re2j-1.8.jar": "7b52c72156dd7f98b3237a5b35c1d34fba381b21048c89208913ad80a45dfbd7",
    "scala-library-2.13.17.jar": "b7822c4225243215f185925724a6edff92cf18777a136cc738276c4446fac76c",
    "scala-logging_2.13-3.9.6.jar": "0ad0c3f4d89d538b3b6c300158555e266aa69cf1b5f6522aba8b5bad238eb994",
    "scala-reflect-2.13.17.jar": "734533897bcfabe7a6e7fa09dbee165b257b0396e14e8a57c75111db8e04bb98",
    "slf4j-api-1.7.36.jar": "d3ef575e3e4979678dc01bf1dcce51021493b4d11fb7f1be8ad982877c16a1c0",
    "snakeyaml-2.4.jar": "ef779af5d29a9dde8cc70ce0341f5c6f7735e23edff9685ceaa9d35359b7bb7f",
    "snappy-java-1.1.10.7.jar": "4c766cb3f855415ee734b2392949a0b6f12a60879334a74518deaf6270d32e36",
    "spark-avro_2.13-4.1.1.jar": "6a19d90bc3b6e88d8db0fa36a19273aa10fea2dbd7a62bb60e4cedd73051b32d",
    "spark-sql-kafka-0-10_2.13-4.2.0.jar": "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar": "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
    "zstd-jni-1.5.6-10.jar": "b6c3237e24b8252a5a9c3a0e1ae30ef8f323412e74bd358548b7a9e527d676df",
}
"""The digest of each jar by its file's name, in hexadecimal digits."""
