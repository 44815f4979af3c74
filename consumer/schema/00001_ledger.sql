-- +goose Up
create table installation (
  one          boolean primary key default true check (one),
  lock_backend text    not null,
  partitions   integer not null
);

create table partitions (
  partition   integer primary key,
  term        bigint not null default 0,
  holder      text   not null default '',
  settled_seq bigint not null default 0,
  -- When the stream was created whose sequence numbers settled_seq counts in.
  log_created timestamptz
);

create table activities (
  id             text primary key,
  state          text   not null default 'draft' check (state in ('draft', 'open', 'paused', 'closed')),
  title          text   not null default '',
  starts_at      timestamptz,
  ends_at        timestamptz,
  payment_window interval not null default '0',
  epoch          bigint not null default 0,  -- of the gate's present life
  last_epoch     bigint not null default 0,  -- newest number handed to a rebuild
  revision       bigint not null default 1,  -- rises with state and window
  suspect        text   not null default '', -- why the gate cannot be right
  updated_at     timestamptz not null default now()
);

-- The hot rows: room for HOT updates on every page.
create table skus (
  activity_id    text    not null references activities (id),
  sku_id         text    not null,
  total          integer not null check (total >= 0),
  stock          integer not null check (stock >= 0 and stock <= total),
  limit_per_user integer not null check (limit_per_user >= 1),
  price          bigint  not null check (price >= 0),
  primary key (activity_id, sku_id)
) with (fillfactor = 50);

create table orders (
  id            uuid primary key,
  activity_id   text not null,
  sku_id        text not null,
  user_id       text collate "C" not null,
  quantity      integer not null check (quantity >= 1),
  amount        bigint  not null,
  status        text not null check (status in
    ('held', 'pending_payment', 'confirmed', 'paid', 'cancelled', 'expired', 'rejected')),
  reason        text,
  created_at    timestamptz not null,
  decided_at    timestamptz not null default now(),
  pay_before    timestamptz,
  key           text,               -- the buyer's Idempotency-Key
  epoch         bigint not null,    -- of the reservation
  release_epoch bigint,             -- units to be given back to the gate of this epoch
  partition     integer not null,
  log_seq       bigint not null,
  term          bigint not null     -- of the settler that decided
);
-- A buyer's orders: the limit is counted and the list is read by it.
create index orders_buyer on orders (activity_id, user_id, sku_id);
create index orders_release on orders (activity_id) where release_epoch is not null;

-- +goose Down
drop table orders, skus, activities, partitions, installation;
