-- +goose Up
-- One row a change of status, until it has been published. The triggers write it in
-- the statement that changes the order, so that no path to a status can forget it.
create table outbox (
  -- Of one order, a later change has a greater id: the row lock lets one go first.
  id       bigint generated always as identity primary key,
  order_id uuid not null,
  status   text not null,
  reason   text,
  at       timestamptz not null default now()
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000);

-- Each runs once a statement, whatever the number of rows and whoever's search path.
-- +goose StatementBegin
create function outbox_decided() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason) select id, status, reason from decided order by id;
  return null;
end $$;
-- +goose StatementEnd
-- +goose StatementBegin
create function outbox_changed() returns trigger language plpgsql set search_path from current as $$
begin
  insert into outbox (order_id, status, reason)
  select id, n.status, n.reason from after_it n join before_it b using (id) where n.status <> b.status order by id;
  return null;
end $$;
-- +goose StatementEnd
create trigger outbox_decided after insert on orders
  referencing new table as decided for each statement execute function outbox_decided();
create trigger outbox_changed after update on orders
  referencing old table as before_it new table as after_it for each statement execute function outbox_changed();

-- +goose Down
drop trigger outbox_decided on orders;
drop trigger outbox_changed on orders;
drop function outbox_decided(), outbox_changed();
drop table outbox;
