-- The gates that have units to get back: a look into the index for each activity. Before
-- the first statistics, a question to all orders at once reads all orders.
select distinct a.id, o.release_epoch
  from activities a
 cross join lateral (
       select release_epoch from orders
        where orders.activity_id = a.id and release_epoch is not null offset 0) o
 order by 1, 2
