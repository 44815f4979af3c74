-- +goose Up
-- One row a replay: what it was asked, and how far it is. The position is committed
-- with the counts, so that a run that was cut off can go on.
create table replays (
  id          uuid primary key,
  selection   jsonb       not null,
  log_created timestamptz not null,  -- of the stream whose numbers the next three are
  from_seq    bigint      not null,
  to_seq      bigint      not null,
  position    bigint      not null,  -- everything up to here is done
  read        bigint      not null default 0,
  matched     bigint      not null default 0,
  settled     bigint      not null default 0,
  already     bigint      not null default 0,
  rejected    bigint      not null default 0,
  dead        bigint      not null default 0,
  unknown     bigint      not null default 0,
  -- An order is settled by this run if it was decided after this.
  started_at  timestamptz not null default clock_timestamp(),
  updated_at  timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);

-- +goose Down
drop table replays;
