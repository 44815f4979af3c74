-- One page of replays, newest first.
select id::text, selection, log_created, from_seq, to_seq, position, started_at, updated_at, finished_at,
       read, matched, settled, already, rejected, dead, unknown
  from replays
 where replays.id < coalesce(nullif($1, '')::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
 order by replays.id desc limit $2
