-- +goose Up
-- One row a statement that changes orders, and status: a settlement of a thousand orders
-- writes one row and removes one, where it was a thousand. The table outbox stays, empty,
-- for workers of the release before, and goes with the release after.
create table outbox_batches (
  -- Of one order, a later change has a greater id: the row lock lets one go first.
  id          bigint generated always as identity primary key,
  order_ids   uuid[] not null,
  orders      integer generated always as (cardinality(order_ids)) stored,
  status      text not null,
  reason      text,
  at          timestamptz not null default now(),
  traceparent text default nullif(current_setting('seckill.traceparent', true), '')
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table outbox_batches alter column order_ids set storage external; -- ids do not get smaller

-- +goose StatementBegin
create or replace function outbox_decided() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox_batches (order_ids, status, reason)
  select array_agg(id order by id), status, reason from decided group by status, reason;
  return null;
end $$;
-- +goose StatementEnd
-- +goose StatementBegin
create or replace function outbox_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox_batches (order_ids, status, reason)
  select array_agg(id order by id), n.status, n.reason
    from after_it n join before_it b using (id)
   where n.status <> b.status
      or (n.refund, n.replaced_by) is distinct from (b.refund, b.replaced_by)
   group by n.status, n.reason;
  return null;
end $$;
-- +goose StatementEnd

-- What waits keeps its number, which is part of an event's id.
lock table outbox in access exclusive mode;
insert into outbox_batches (id, order_ids, status, reason, at, traceparent) overriding system value
select id, array[order_id], status, reason, at, traceparent from outbox;
select setval(pg_get_serial_sequence('outbox_batches', 'id'), nextval(pg_get_serial_sequence('outbox', 'id')));
delete from outbox;

-- +goose Down
-- +goose StatementBegin
create or replace function outbox_decided() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason) select id, status, reason from decided order by id;
  return null;
end $$;
-- +goose StatementEnd
-- +goose StatementBegin
create or replace function outbox_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason)
  select id, n.status, n.reason
    from after_it n join before_it b using (id)
   where n.status <> b.status
      or (n.refund, n.replaced_by) is distinct from (b.refund, b.replaced_by)
   order by id;
  return null;
end $$;
-- +goose StatementEnd
select setval(pg_get_serial_sequence('outbox', 'id'), nextval(pg_get_serial_sequence('outbox_batches', 'id')));
insert into outbox (order_id, status, reason, at, traceparent)
select unnest(order_ids), status, reason, at, traceparent from outbox_batches order by id;
drop table outbox_batches;
