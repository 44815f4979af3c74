-- Dead orders of an activity whose units have yet to be given back at a gate.
select id::text, activity_id, sku_id, user_id, quantity, status, release_epoch
  from orders where activity_id = $1 and release_epoch is not null limit $2
