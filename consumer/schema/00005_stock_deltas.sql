-- +goose Up
-- A change of a SKU's total rises its version: the gate takes only a newer one.
alter table skus add column version bigint not null default 1;

-- What operators have added to or taken from the stock of an opened sale. Units are
-- taken in the transaction of a rebuild; until then the row waits.
create table stock_deltas (
  id          bigint generated always as identity primary key,
  activity_id text    not null references activities (id),
  sku_id      text    not null,
  delta       integer not null check (delta <> 0),
  key         text,               -- Idempotency-Key
  state       text    not null check (state in ('waiting', 'applied', 'refused')),
  actor       text    not null,
  reason      text    not null,
  asked_at    timestamptz not null default now(),
  decided_at  timestamptz
);
create unique index stock_deltas_key on stock_deltas (activity_id, key) where key is not null;
create index stock_deltas_waiting on stock_deltas (activity_id, id) where state = 'waiting';

-- +goose Down
drop table stock_deltas;
alter table skus drop column version;
