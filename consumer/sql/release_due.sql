-- How many orders of one activity, or of all, have units to be given back at a gate. See
-- release_lives.
select count(*)
  from activities a
 cross join lateral (
       select from orders
        where orders.activity_id = a.id and release_epoch is not null offset 0) o
 where $1 = '' or a.id = $1
