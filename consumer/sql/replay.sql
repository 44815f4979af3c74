select id::text, selection, log_created, from_seq, to_seq, position, started_at, updated_at, finished_at,
       read, matched, settled, already, rejected, dead, unknown
  from replays where id = $1
