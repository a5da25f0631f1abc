"""The JSON of commit callbacks, as Apache Hudi 1.2 printed the same message (HoodieWriteCommitCallbackUtil)."""

from __future__ import annotations

import json

from pudi.format import RuntimeStats, WriteStat
from pudi.hooks.http_callback import encode_commit_message

ZEROS = (
    '"numInserts":0,"numUpdates":0,"numDeletes":0,"totalLogReadTimeMs":0,"totalLogRecords":0,'
    '"totalLogFilesCompacted":0,"totalLogSizeCompacted":0,"totalUpdatedRecordsCompacted":0,"totalLogBlocks":0,'
    '"totalValidLogBlocks":0,"totalLogBlocksSize":0,"totalLogBlocksScanTimeMs":0,"totalCorruptLogBlock":0,'
    '"totalRollbackBlocks":0,'
)
HUDI = (
    '{"commitTime":"20260101","tableName":"t","basePath":"/lake/t","hoodieWriteStat":[{'
    + ZEROS
    + '"fileId":"f1","path":"p/f.parquet","cdcStats":{"a":1},"prevCommit":"null","numWrites":3,"numUpdateWrites":0,'
    '"totalWriteBytes":0,"totalWriteErrors":0,"tempPath":null,"partitionPath":"p","fileSizeInBytes":0,'
    '"minEventTime":3,"maxEventTime":9,"prevBaseFile":null,"runtimeStats":{"totalScanTime":0,"totalUpsertTime":0,'
    '"totalCreateTime":5},"columnStats":{"empty":true,"present":false}},{'
    + ZEROS
    + '"fileId":"f2","path":null,"cdcStats":null,"prevCommit":null,"numWrites":0,"numUpdateWrites":0,'
    '"totalWriteBytes":0,"totalWriteErrors":0,"tempPath":null,"partitionPath":null,"fileSizeInBytes":0,'
    '"minEventTime":null,"maxEventTime":null,"prevBaseFile":null,"runtimeStats":null,"logVersion":1,"logOffset":0,'
    '"baseFile":"b.parquet","logFiles":["x.log"],"columnStats":{"empty":true,"present":false}}],'
    '"commitActionType":{"empty":false,"present":true},"extraMetadata":{"empty":false,"present":true}}'
)


def test_the_message_is_hudis_to_the_byte() -> None:
    base = WriteStat(
        file_id="f1", path="p/f.parquet", partition_path="p", num_writes=3, prev_commit="null", cdc_stats={"a": 1},
        min_event_time=3, max_event_time=9, runtime_stats=RuntimeStats(total_create_time=5),
    )  # fmt: skip
    log = WriteStat(file_id="f2", log_version=1, log_offset=0, base_file="b.parquet", log_files=("x.log",))
    assert encode_commit_message("20260101", "t", "/lake/t", [base, log]).decode() == HUDI


def test_text_beyond_ascii_stays_as_it_is() -> None:
    sent = encode_commit_message("1", "tàble", "/lake/Straße", [])
    assert "tàble" in sent.decode()
    assert json.loads(sent)["basePath"] == "/lake/Straße"
