-- Records a delta, once under its key; one that was refused is asked anew. Nothing
-- comes back when the key has a delta that waits or is applied.
insert into stock_deltas (activity_id, sku_id, delta, key, state, actor, reason)
values ($1, $2, $3, nullif($4, ''), 'waiting', $5, $6)
    on conflict (activity_id, key) where key is not null do update
   set state = 'waiting', actor = excluded.actor, reason = excluded.reason, asked_at = now(), decided_at = null
 where stock_deltas.state = 'refused' and stock_deltas.sku_id = excluded.sku_id and stock_deltas.delta = excluded.delta
returning id
